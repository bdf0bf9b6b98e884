BEGIN TRANSACTION;
CREATE TABLE dpcost_ledger (
        seq BIGINT PRIMARY KEY,
        kind TEXT NOT NULL,
        dataset TEXT NOT NULL,
        subject TEXT NOT NULL,
        digest TEXT NOT NULL,
        previous TEXT NOT NULL,
        hash TEXT NOT NULL,
        body TEXT NOT NULL
    );
INSERT INTO "dpcost_ledger" VALUES(1,'open','patients','','db393bf5019fb5c217b80fab0498759033567ef304e4cee9509a72ae5c67cfd6','0000000000000000000000000000000000000000000000000000000000000000','4e3d34e95ab1274e607071c61186a2cce1c0f73083cf437f2152ea33e82b55db','{"delta":1e-05,"epsilon":1.0,"time":"2026-11-21T17:14:41.682+00:00"}');
INSERT INTO "dpcost_ledger" VALUES(2,'bind','patients','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','57551c0bbf81aaa51ac81e23b75dd075219ab85222f690312b15d3555b073bb5','4e3d34e95ab1274e607071c61186a2cce1c0f73083cf437f2152ea33e82b55db','b9118ed385a356d2916ec3603bdd2f23c39b5632ce01f211fad857f8bd73246e','{"content":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","new_content":false,"order":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","time":"2026-11-21T17:14:41.712+00:00"}');
INSERT INTO "dpcost_ledger" VALUES(3,'charge','patients','5864495b5602f600e72f79325d76b9c624bef667154d0f58f527225c46d2040b','a99d9b798efa4d6c170b1acf947b85514cd4fa2ce120ab58396ba862f21b731c','b9118ed385a356d2916ec3603bdd2f23c39b5632ce01f211fad857f8bd73246e','d8886d496df06d1fa74d5d33479117246206f0587233d9a8bda55e6fb78c01e8','{"accounting":{"rho":0.02},"attempt":1,"content":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","dataset":"patients","delta":1e-06,"epsilon":0.3,"estimator":"dp_mean","holder":{"process":{"boot_id":"4a492e2f-cc47-4b14-8bcb-43affea8b7a1","host":"vm","pid":21358,"start_time":"309776"},"thread":139809371102080},"parameters":{"value_bound":2},"time":"2026-11-21T17:14:41.713+00:00"}');
INSERT INTO "dpcost_ledger" VALUES(4,'release','patients','5864495b5602f600e72f79325d76b9c624bef667154d0f58f527225c46d2040b-1','9eca7d9a7719e77cd5c0c4abe7307ae48ffce14a34f0d76fdbdc2fa9a9e7b6d1','d8886d496df06d1fa74d5d33479117246206f0587233d9a8bda55e6fb78c01e8','c5eddbd8d79527316695dd7e94c8683cb62edd41f172c37190419a49222ef38e','{"payload":{"estimate":[0.30000000000000004,-0.0]},"time":"2026-11-21T17:14:41.733+00:00"}');
INSERT INTO "dpcost_ledger" VALUES(5,'charge','patients','3daec110b71b22e2ad086047214484dd72df2a936799f1596bad98fbe6192b86','00b40609998f879eb1a778c48d2ea0653bb2c1b87515bb353d4e351d978fac5d','c5eddbd8d79527316695dd7e94c8683cb62edd41f172c37190419a49222ef38e','dddf5dae88b0d36cf6bf3d9758c4e8678d618c99c7ebb32e676b7acb80a2632e','{"accounting":{},"attempt":1,"content":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","dataset":"patients","delta":1e-06,"epsilon":0.3,"estimator":"dp_mean","holder":{"process":{"boot_id":"4a492e2f-cc47-4b14-8bcb-43affea8b7a1","host":"vm","pid":21358,"start_time":"309776"},"thread":139809371102080},"parameters":{"value_bound":3},"time":"2026-11-21T17:14:41.769+00:00"}');
INSERT INTO "dpcost_ledger" VALUES(6,'lost','patients','3daec110b71b22e2ad086047214484dd72df2a936799f1596bad98fbe6192b86-1','63c531c019c04f102fb19d5363c8240c4871c542dc91979bbede53a926d154b2','dddf5dae88b0d36cf6bf3d9758c4e8678d618c99c7ebb32e676b7acb80a2632e','69b77d2fabf7c664662690007ec403480f690e69d01bd50697414f690567d17b','{"reason":"x","time":"2026-11-21T17:14:41.817+00:00"}');
CREATE TABLE dpcost_ledger_head (
        n_entries BIGINT NOT NULL,
        hash TEXT NOT NULL,
        key_id TEXT NOT NULL,
        mac TEXT NOT NULL
    );
INSERT INTO "dpcost_ledger_head" VALUES(6,'69b77d2fabf7c664662690007ec403480f690e69d01bd50697414f690567d17b','be49c375f8a2b132','1eef2c2c3705b838df27608185951d52d498e42a9cb3e46782bb204b5b493175');
CREATE INDEX dpcost_ledger_by_dataset ON dpcost_ledger (dataset, kind, seq);
CREATE INDEX dpcost_ledger_by_subject ON dpcost_ledger (subject, kind, seq);
CREATE UNIQUE INDEX dpcost_ledger_opened_once ON dpcost_ledger (dataset) WHERE kind = 'open';
CREATE UNIQUE INDEX dpcost_ledger_released_once ON dpcost_ledger (subject) WHERE kind = 'release';
CREATE TRIGGER dpcost_ledger_no_update BEFORE UPDATE ON dpcost_ledger BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dpcost_ledger_no_delete BEFORE DELETE ON dpcost_ledger BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dpcost_ledger_head_no_delete BEFORE DELETE ON dpcost_ledger_head BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
COMMIT;
