package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestBaseline(t *testing.T) {
	for _, tc := range []struct {
		file string
		want []string
		err  string
	}{
		{`{"incidents": [{"fingerprint": "silent/kill/redis/page", "found": 3}, {"fingerprint": "leaked/-/-/-"}]}`, []string{"silent/kill/redis/page", "leaked/-/-/-"}, ""},
		{`{"incidents": []}`, nil, ""},
		{` [{"fingerprint": "leaked/-/-/-"}]`, []string{"leaked/-/-/-"}, ""},
		{"# of spring\n\nsilent/kill/redis/page   # ticket 7\r\n  leaked/-/-/-", []string{"silent/kill/redis/page", "leaked/-/-/-"}, ""},
		{"", nil, ""},
		{`{"verdicts": {}}`, nil, "it has no incidents"}, // a summary says what was lost, and not to what
		{`{"incidents": [{}]}`, nil, "is no name of an incident"},
		{`{"incidents": `, nil, "unexpected end of JSON input"},
		{`[1]`, nil, "cannot unmarshal"},
		{"amnesia.db", nil, `"amnesia.db" is no name of an incident`},
		{"\x1b]0;owned\a" + strings.Repeat("x", 1000), nil, `"\x1b]0;owned\a` + strings.Repeat("x", 29) + `…" is no name of an incident`},
		{"SQLite format 3\x00\x10", nil, "it is no text"},
	} {
		path := filepath.Join(t.TempDir(), "baseline")
		if err := os.WriteFile(path, []byte(tc.file), 0o600); err != nil {
			t.Fatal(err)
		}
		known, err := CIOptions{Baseline: path}.known()
		var got []string
		for _, k := range known {
			got = append(got, k.Fingerprint)
		}
		if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), " — fix: ")) || !slices.Equal(got, tc.want) {
			t.Errorf("%q gives %q and %v, want %q and %q", tc.file, got, err, tc.want, tc.err)
		}
	}
}

func TestNoBaseline(t *testing.T) {
	_, err := CIOptions{Baseline: filepath.Join(t.TempDir(), "missing")}.known()
	if err == nil || !strings.Contains(err.Error(), " — fix: give what 'amnesia report -o json' wrote, or names of incidents, one a line") {
		t.Errorf("a baseline that is not there: %v", err)
	}
}

// A ledger may come from anywhere: what it calls a picture is one of the folder of evidence, or none.
func TestGallery(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "amnesia-evidence")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	const stamp = "20261130T020000.000Z-"
	for name, content := range map[string][]byte{
		"amnesia-evidence/" + stamp + "good.png":  pixel,
		"amnesia-evidence/" + stamp + "text.png":  []byte("a secret"),
		"amnesia-evidence/" + stamp + "large.png": append(slices.Clone(pixel), make([]byte, mostPicture)...),
		"amnesia-evidence/" + stamp + "page.html": []byte("<html>"),
		"secret.png":           pixel,
		stamp + "beside.png":   pixel,
		"secret.txt":           []byte("a secret"),
		stamp + "unfit-to.txt": []byte("a secret"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "secret.txt"), filepath.Join(folder, stamp+"link.png")); err != nil {
		t.Fatal(err)
	}
	g := pictures(filepath.Join(dir, "amnesia.db"), "")
	for file, want := range map[string]string{
		stamp + "good.png":                             "",
		filepath.Join(folder, stamp+"good.png"):        "",
		"/on/another/machine/" + stamp + "good.png":    "", // the evidence was moved with the ledger
		stamp + "beside.png":                           "",
		stamp + "text.png":                             "it is no picture",
		stamp + "page.html":                            "it is no picture",
		stamp + "large.png":                            "too large",
		stamp + "link.png":                             "not there",
		stamp + "gone.png":                             "not there",
		filepath.Join(dir, "secret.png"):               "not there",
		filepath.Join(dir, "secret.txt"):               "not there",
		filepath.Join(dir, stamp+"unfit-to.txt"):       "not there",
		"../secret.txt":                                "not there",
		"":                                             "not there",
		filepath.Join("..", "..", stamp+"nowhere.png"): "not there",
	} {
		b, err := g.read(file)
		if want == "" && (err != nil || len(b) != len(pixel)) || want != "" && (err == nil || !strings.Contains(err.Error(), want) || b != nil) {
			t.Errorf("%s: %d bytes, %v, want %q", file, len(b), err, want)
		}
		if path, there := g.find(file); there != (want != "not there") || !filepath.IsAbs(path) {
			t.Errorf("%s is found at %s: %t", file, path, there)
		}
	}
}
