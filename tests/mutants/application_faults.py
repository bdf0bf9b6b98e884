"""Planted faults of data, reports, tasks and flows, by file."""

from tests.mutants.changes import argument, call, condition, name, number, operation, returns, text, without
from tests.mutants.fault import Fault

APPLICATION_FAULTS = {
    "data/ledger/backup.py": {
        "an older backup is put over newer charges": Fault(
            "_replace", condition("_continues", "False"), "test_backup"
        ),
        "answers are no part of what a backup continues": Fault(
            "_continues", operation("answered", "True"), "test_backup"
        ),
        "an edited backup is put back": Fault(
            "restore_backup", condition("problems", "False"), "test_backup"
        ),
        "a backup of a ledger that was rolled back replaces a later one": Fault(
            "write_backup", condition("exists", "False"), "test_backup"
        ),
    },
    "data/ledger/book.py": {
        "an edited charge is not seen": Fault("_hash", returns("row['hash']"), "test_chain"),
        "an edited answer is not seen": Fault("_seal", returns("row['seal']"), "test_chain"),
        "charges that were cut off are not missed": Fault(
            "Book.problems", condition("last_of", "False"), "test_chain"
        ),
    },
    "data/ledger/database.py": {
        "a message quotes what is stored": Fault(
            "SQLiteDatabase._advice", returns("str(error.orig)"), "test_chain"
        )
    },
    "data/ledger/ledger.py": {
        "a charge is made without room for its answer": Fault(
            "Ledger.charge", without("reserve"), "tests/data/ledger/test_faults.py"
        ),
        "a renamed copy gets a budget of its own": Fault(
            "_require_content", condition("names", "False", nth=1), "test_a_renamed_copy_gets_no_new_budget"
        ),
        "another process stores the answer to a charge": Fault(
            "_require_open", condition("is_this_process", "False"), "test_nobody_else_may_answer"
        ),
        "a charge that was made again is answered twice": Fault(
            "_require_open",
            condition("PENDING", "charge.state != PENDING"),
            "test_a_charge_of_another_machine_counts_as_lost_after_a_while",
        ),
    },
    "data/prepare/genotype_groups.py": {
        "genotypes are flipped": Fault(
            "group_difference", operation("CENTER", "-({all})", nth=0), "test_genotype_groups"
        )
    },
    "data/store/code_digest.py": {
        "a plugin that was edited keeps its digest": Fault(
            "_code_digest", call("_with_imports", "()"), "test_cache_keys"
        ),
        "what an estimator takes from another one is forgotten": Fault(
            "_imported_plugins", condition("PLUGINS", "False"), "test_cache_keys"
        ),
    },
    "data/store/folders.py": {
        "a home that other accounts can enter stays open": Fault(
            "closed_folder",
            condition("chmod", "False"),
            "test_no_other_account_can_reach_what_a_home_keeps_of_a_table_of_ones_own",
        )
    },
    "data/store/shared.py": {
        "content of the shared store is not checked": Fault(
            "bring", condition("hexdigest", "False"), "test_shared_store"
        )
    },
    "data/tables/declared.py": {
        "numbers beyond their bounds become their mean": Fault(
            "_clipped",
            call("clip", "{0}.mean()"),
            "test_numbers_beyond_their_bounds_become_the_nearer_one_and_are_counted_where_the_owner_says_so",
        ),
        "a refusal says how many rows are outside the bounds": Fault(
            "_undeclared",
            call("_listed", "{all} + f' in {{_outside(columns[-1], found).sum()}} rows'"),
            "test_what_is_not_as_declared_is_one_sentence_without_a_value",
        ),
        "a user of two pieces of a file is two users": Fault(
            "UserIds.add",
            call("setdefault", "{all} + 10**6 * len(self._pieces)"),
            "test_a_user_of_several_pieces_of_a_file_is_one_user",
        ),
        "ids of users are compared as they are written": Fault(
            "UserIds.add",
            call(
                "cells_of",
                "cells_of({0}, pa.record_batch("
                "[[f'id {{one}}' for one in {1}[{2}].to_pylist()]], [{2}]), {2}, '')",
            ),
            "test_an_id_that_is_written_in_several_ways_is_one_user",
        ),
    },
    "data/tables/reading.py": {
        "a file that changes between charge and draw is not noticed": Fault(
            "StreamedTable._pieces", condition("_checked", "False"), "test_streamed_rows"
        )
    },
    "flows/record/artifacts.py": {
        "the report of an analyst's table goes to the server": Fault(
            "attach_report", condition("analyst_table", "False"), "test_artifacts"
        )
    },
    "flows/record/journal.py": {
        "a live run is counted as gone": Fault("is_held", returns("False"), "test_journal"),
        "a run that died is running for ever": Fault("is_held", returns("True"), "test_journal"),
        "the last run of a study is forgotten": Fault(
            "_write", operation("studies", "False"), "test_journal"
        ),
    },
    "flows/record/inventory.py": {
        "what another machine is writing to the shared store is pruned": Fault(
            "prune_shared", condition("_ON_ITS_WAY", "True"), "test_inventory"
        )
    },
    "flows/league/scale.py": {
        "an answer that is no number counts as perfect": Fault(
            "RegressionScale.error", argument("nan_to_num", "nan", "0.0"), "test_league"
        ),
    },
    "flows/league/run.py": {
        "a result that two machines have counts twice": Fault(
            "merged", condition("known", "True"), "test_league"
        ),
    },
    "flows/league/method_run.py": {
        "a fit that is known is done again": Fault(
            "MethodRun._fitted", condition("known", "False"), "test_league"
        ),
    },
    "reports/pages/league.py": {
        "losses are not listed": Fault("_leaders", operation("verdict", "False", nth=1), "test_league"),
    },
    "reports/analysis/league.py": {
        "a method without an answer is as good as the best": Fault(
            "errors_of", argument("fillna", 0, "{{'value': 1.0}}"), "test_league"
        ),
        "a rival is compared where it was chosen": Fault("_judged", number(1, 0), "test_league"),
        "our error is taken for exact": Fault("_verdict", name("a_error", "1e-9", nth=3), "test_league"),
        "what violates its claim is a rival": Fault("violated", name("found", "()", nth=1), "test_league"),
    },
    "flows/record/progress.py": {
        "blocks under way count as nothing": Fault("Progress.within", name("work", "0.0"), "test_progress")
    },
    "flows/studies/stored.py": {
        "a damaged result is served from the cache": Fault(
            "StoredResults.run", operation("at_hand", "record is None"), "test_stored"
        ),
        "a result that is to be made again is served from the cache": Fault(
            "StoredResults.run", name("again", "False"), "test_stored"
        ),
        "a stand-in is served where the data may be had by now": Fault(
            "StoredResults.bring", condition("by_now", "False"), "test_stored"
        ),
    },
    "flows/server/app.py": {
        "the reports are shown to anyone": Fault("_has_signed_in", returns("True"), "test_app"),
        "another site may change what it likes": Fault("_refusal", returns("None"), "test_app"),
        "a sign-in leads to another site": Fault("_sign_in", call("startswith", "to"), "test_app"),
    },
    "reports/analysis/results.py": {
        "the standard error is the standard deviation": Fault(
            "summarize", operation("std", "{left}"), "tests/reports/test_results.py"
        )
    },
    "reports/analysis/series.py": {
        "public rows alone pass for the answer without privacy": Fault(
            "with_roles",
            text("public", "nonprivate"),
            "test_public_rows_alone_are_not_taken_for_the_answer_without_privacy",
        )
    },
    "tasks/problems/problem.py": {
        "what is said to be of public rows alone is of private ones": Fault(
            "Draw.answer",
            operation("PUBLIC_ALONE", "False"),
            "test_a_study_shows_the_public_rows_alone_and_its_other_answers_stay_the_same",
        )
    },
    "tasks/problems/public_rows.py": {
        "keys do not know public rows": Fault(
            "PublicRows.sha256",
            returns("''"),
            "test_keys_know_the_rows_whatever_their_order_and_the_format_of_their_file",
        )
    },
    "tasks/problems/registered_table.py": {
        "a study of users runs estimators that protect a row": Fault(
            "RegisteredTableProblem.check_estimator",
            operation("!=", "{left} > {right}"),
            "test_a_wrong_declaration_of_users_is_one_sentence",
        )
    },
    "tasks/release/plan.py": {
        "units are no part of the question": Fault(
            "_parameters",
            name(".declared", "{{}}"),
            "test_the_same_question_is_free_and_other_units_are_another_question",
        ),
        "public rows are no part of the question": Fault(
            "_parameters",
            condition("sha256", "False"),
            "test_another_public_table_is_another_question_and_the_same_one_is_not",
        ),
        "a plan is not compared with the request": Fault(
            "plan_release", without("_check_plan"), "test_a_plan_that_is_not_what_was_asked_is_never_charged"
        ),
    },
    "tasks/release/release.py": {
        "the same question is answered anew": Fault(
            "release",
            operation("or", "ledger.store(charge, draw(plan))"),
            "test_a_release_is_charged_once_and_replayed",
        )
    },
    "tasks/release/spending.py": {
        "a budget never ends": Fault("room_in", condition("together", "True", nth=0), "test_the_budget_ends")
    },
    "tasks/release/table.py": {
        "progress shows how many rows users have": Fault(
            "read_rows",
            condition("progress", "progress"),
            "test_progress_tells_how_many_rows_were_read_unless_that_is_private",
        ),
        "a row with a gap adds to a released regression": Fault(
            "table_as_declared",
            call("zeros", "np.ones({0})", nth=1),
            "test_a_row_with_a_gap_becomes_a_row_of_zeros_and_the_number_of_rows_stays",
        ),
        "a released mean is of as many rows as have no gap": Fault(
            "table_as_declared",
            condition("repairs", "{left} and user_id"),
            "test_rows_with_gaps_are_never_dropped_from_a_mean",
        ),
        "a declared release is in units that the data decide": Fault(
            "table_as_declared",
            operation("-", "{left} - {left}.mean()", nth=0),
            "test_a_row_changes_its_own_row_and_no_other",
        ),
        "what stands for missing cells is no part of the question": Fault(
            "_declared",
            condition("imputed", "False"),
            "test_another_constant_for_missing_cells_is_another_question",
        ),
        "spellings of levels are no part of the question": Fault(
            "_declared", condition("spellings", "False", nth=1), "test_other_spellings_are_another_question"
        ),
        "bounds that values are moved to are no part of the question": Fault(
            "_declared",
            condition("outside", "False"),
            "test_other_bounds_are_another_question_where_values_are_moved_to_them",
        ),
        "the number of rows of a release of users can be asked": Fault(
            "table_as_declared",
            condition("replace", "False"),
            "test_the_number_of_rows_of_users_cannot_be_asked",
        ),
    },
    "tasks/report/write.py": {
        "the index of private reports is anybody's": Fault(
            "write_index", argument("atomic_write", "private", "False"), "test_tasks"
        ),
        "a report that is not for publication is copied to the shared store": Fault(
            "share_report", text("warning", "no warning"), "test_shared_reports"
        ),
        "the manifest of a report stays in the shared store while its files are replaced": Fault(
            "_copy", without("remove_shared", nth=0), "test_shared_reports"
        ),
        "a link in a report's folder is followed into the shared store": Fault(
            "_is_of_report", call("is_symlink", "False"), "test_shared_reports"
        ),
    },
    "tasks/study/study_file.py": {
        "a stand-in passes for what an owner has yet to declare": Fault(
            "checked_study",
            condition("sorted", "False"),
            "test_an_open_declaration_is_refused_in_whatever_lines_it_stands",
        ),
    },
    "tasks/advice/made_up_tables.py": {
        "the chance in a forecast is that of few rows": Fault(
            "MadeUpTable.interval_of_more",
            condition("of_chance", "True"),
            "test_chance_in_a_forecast_of_a_release_is_that_of_all_rows",
        ),
    },
    "tasks/run/headline.py": {
        "an audit is doubled": Fault("_stored_audit", name(".epsilon_lower_bound", "2 * {all}"), "test_tasks")
    },
    "tasks/run/block.py": {
        "a private preparation is taken for granted": Fault(
            "compute_block", name(".protected", "True"), "test_block"
        )
    },
    "tasks/run/collect.py": {
        "half of the rows are dropped": Fault(
            "collect", call("concat", "{all}.iloc[::2]", nth=0), "test_tasks"
        )
    },
    "tasks/scorecard/claims.py": {
        "a claim holds at twice its epsilon": Fault("Guarantee.judge", number(1e-9, 1), "test_claims")
    },
    "tasks/work_units.py": {
        "a cell's settings override its budget": Fault(
            "Cell.keywords", returns("{all} | dict(self.params)"), "test_work_units"
        )
    },
}
