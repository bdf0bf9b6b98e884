from pathlib import Path

import pytest

from data.errors import DataError
from data.registry import REGISTRY_FILE, Source, get_dataset, load_registry


def edited(tmp_path: Path, old: str, new: str) -> Path:
    text = REGISTRY_FILE.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "registry.toml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


def test_housing_is_described_in_full() -> None:
    dataset = get_dataset("housing")
    assert dataset.n_rows == 20_640
    assert [source.layout for source in dataset.sources] == ["cal_housing_tgz", "statlib_zip"]
    units = {c.name: (c.center, c.scale) for c in dataset.columns if c.scale is not None}
    assert units == {
        "housing_median_age": (30, 12),
        "total_rooms": (2500, 2000),
        "population": (1500, 1000),
        "households": (500, 400),
        "median_income": (4, 2),
        "median_house_value": (200_000, 100_000),
    }
    assert all("geography" in c.bounds_source or "not computed" in c.bounds_source for c in dataset.columns)


def test_a_checksum_known_in_part_must_agree_with_what_is_known() -> None:
    source = get_dataset("housing").sources[1]
    assert source.checksum_is_partial
    assert source.matches("8b18f0a0" + "0" * 50 + "3708d7")
    assert not source.matches("8b18f0a0" + "0" * 56)
    assert not source.matches("0" * 58 + "3708d7")
    assert "…" in source.expected_checksum


def test_a_whole_checksum_must_be_equal() -> None:
    source = Source("f", "https://x", "y", "a" * 64)
    assert source.matches("a" * 64)
    assert not source.matches("a" * 63 + "b")


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(DataError, match=r"'housin' is not in the registry; did you mean 'housing'\?"):
        get_dataset("housin")
    with pytest.raises(DataError, match="'zebra' is not in the registry; known: housing"):
        get_dataset("zebra")
    with pytest.raises(DataError, match=r"no column 'median_incom'; did you mean 'median_income'\?"):
        get_dataset("housing").column("median_incom")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("n_rows = 20640", "n_rows = ", "not valid TOML"),
        ("n_rows = 20640", "n_rows = 0", "n_rows must be at least 1, got 0"),
        ("n_rows = 20640", 'n_rows = "many"', "n_rows must be of type int, got str"),
        ("n_rows = 20640", "n_rows = true", "n_rows must be of type int, got bool"),
        ("n_rows = 20640", "", "key 'n_rows' is missing"),
        ("n_rows = 20640", "n_rows = 20640\nrows = 1", r"unknown key 'rows'; did you mean 'n_rows'\?"),
        ("table_sha256 = ", "# ", "needs table_sha256"),
        ('table_sha256 = "', 'table_sha256 = "Z', "table_sha256 must be 64 lower-case"),
        ('sha256 = "aaa5', 'sha256 = "aaa', "sha256 must be 64 lower-case"),
        ('sha256_begins = "8b18f0a0"', "", "at least 8 digits"),
        ('sha256_begins = "8b18f0a0"', f'sha256 = "{"a" * 64}"', "whole and in part"),
        ('file = "housing/houses.zip"', 'file = "../houses.zip"', "must be a path below the mirror"),
        ('file = "housing/houses.zip"', 'file = "housing/cal_housing.tgz"', "two sources share a name"),
        ('url = "http://', 'url = "ftp://', "url must begin with https://"),
        ("lower = -125.0", "lower = -114.0", "lower must be below upper"),
        ("lower = -125.0", "lower = nan", "lower must be finite"),
        ("scale = 12.0", "", "center and scale come together"),
        ("scale = 12.0", "scale = 0", "scale must be positive"),
        ('dtype = "int64"', 'dtype = "int8"', "dtype must be one of float64, int64"),
        ('name = "latitude"', 'name = "longitude"', "two columns share a name"),
        ('license = "', 'license = ""\n#', "license is empty"),
        ("[housing]", "zebra = 3\n[housing]", "'zebra' must be a table"),
        ("[housing]", "[zebra]\nn_rows = 3\n[housing]", r"at least one \[\[….sources\]\]"),
    ],
)
def test_a_faulty_entry_is_one_sentence(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_registry(edited(tmp_path, old, new))


def test_a_missing_registry_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        load_registry(tmp_path / "none.toml")


def test_genotypes_are_described_in_full() -> None:
    hapmap, penncath, geo = (get_dataset(f"snp_{name}") for name in ("hapmap3", "penncath", "gse106818"))
    assert [(d.kind, d.n_rows, d.n_snps) for d in (hapmap, penncath, geo)] == [
        ("genotypes", 957, 14_079), ("genotypes", 1_401, 4_367), ("genotypes", 387, 0),
    ]  # fmt: skip
    assert [group.labels for group in hapmap.groups] == [("CEU", "TSI"), ("CHB", "CHD", "JPT")]
    for dataset in (hapmap, penncath):
        files = dataset.sources[0].files
        assert len(files) == 4
        assert all(len(file.sha256) == 64 and not file.url and file.note for file in files)
    assert geo.sources[0].matches("0" * 64)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "genotypes"', 'kind = "music"', "kind must be one of table, genotypes, frames, got 'music'"),
        ('kind = "genotypes"', "", "'snp_hapmap3': a dataset of kind 'table' has no groups"),
        ('kind = "genotypes"', 'kind = "genotypes"\ncolumns = []', "of kind 'genotypes' has no columns"),
        ('labels = ["CEU", "TSI"]', 'labels = ["CEU", "JPT"]', "two groups that share no label"),
        ('labels = ["CEU", "TSI"]', 'labels = "CEU"', "labels must be a list of text"),
        ('labels = ["CEU", "TSI"]', "labels = []", "labels must be a list of text"),
        ('labels = ["CEU", "TSI"]', 'label = ["CEU"]', "labels must be a list of text"),
        ('note = "With the bed file."', "", "a source without url needs a note"),
        ('note = "No checksum', 'sha256_begins = "abc"\nnote = "No checksum', "at least 8 digits"),
        ('layout = "geo_series_matrix"\nnote', 'layout = "geo_series_matrix"\n#', "at least 8 digits"),
        ('overlap.bim"', 'overlap.bed"', "two sources share a name"),
        ('layout = "bim"', 'lay = "bim"', r"unknown key 'lay'; did you mean 'layout'\?"),
        ("n_snps = 14079", 'n_snps = "many"', "n_snps must be of type int"),
    ],
)
def test_a_faulty_entry_of_genotypes_is_one_sentence(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        load_registry(edited(tmp_path, old, new))


def test_the_swarm_files_share_their_features_and_no_label() -> None:
    swarm, kaggle = get_dataset("swarm"), get_dataset("swarm_kaggle")
    assert (swarm.kind, swarm.n_rows, swarm.n_boids, len(swarm.columns)) == ("frames", 24_016, 200, 12)
    assert all(column.scale is not None and "published" in column.bounds_source for column in swarm.columns)
    assert [column.center for column in swarm.columns] == [0] * 10 + [12, 0]
    for name in ("swarm_aligned", "swarm_grouped"):
        assert get_dataset(name).sources == swarm.sources
    assert kaggle.columns == swarm.columns
    assert (kaggle.n_rows, kaggle.label, kaggle.sources[0].url) == (23_309, "Swarm_Behaviour", "")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("n_boids = 200", "", "frames need n_boids of at least 1 and a label"),
        ('label = "Class"', "", "frames need n_boids of at least 1 and a label"),
        ("n_boids = 200", "n_boids = 200\nn_snps = 3", "a dataset of kind 'frames' has no n_snps"),
        ('like = "swarm"', 'like = "swan"', "'swarm_aligned': like must name an entry that states all"),
        ('like = "swarm"', 'like = "swarm_grouped"', "like must name an entry that states all its keys"),
    ],
)  # fmt: skip
def test_a_faulty_entry_of_frames_is_one_sentence(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_registry(edited(tmp_path, old, new))
