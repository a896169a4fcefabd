package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
)

// kept matches a line that names a file to keep: of a list, or of a key.
var kept = regexp.MustCompile(`(?m)^\s*(?:- |junit: |report_paths: )?((?:amnesia|services)[\w-]*(?:\.(?:xml|html|md|db|log)|-evidence/))$`)

// TestExamplesForCI holds that the files can be read, that the command takes every line that calls it, and that what they
// keep is what it writes.
func TestExamplesForCI(t *testing.T) {
	files, err := filepath.Glob("../../deploy/ci/*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := yaml.Unmarshal(text, &doc); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var called []string
		written := []string{"amnesia.db", "amnesia-evidence/"} // as the configuration has it where it says nothing
		for _, s := range texts(doc) {
			for line := range strings.Lines(s) {
				words := shellWords(line)
				if i := slices.Index(words, ">"); i > 0 {
					written = append(written, words[i+1])
				}
				if len(words) < 2 || words[0] != "amnesia" {
					continue
				}
				c := accepted(t, file, words[1:])
				called = append(called, c.Name())
				for _, flag := range []string{"junit", "markdown", "file"} {
					if f := c.Flags().Lookup(flag); f != nil && f.Changed {
						written = append(written, f.Value.String())
					}
				}
			}
		}
		for _, want := range []string{"install", "doctor", "run", "report"} {
			if !slices.Contains(called, want) {
				t.Errorf("%s never calls %s", file, want)
			}
		}
		found := kept.FindAllStringSubmatch(string(text), -1)
		if len(found) < 6 {
			t.Errorf("%s keeps %d files", file, len(found))
		}
		for _, f := range found {
			if !slices.Contains(written, f[1]) {
				t.Errorf("%s keeps %s, which nothing writes: %q", file, f[1], written)
			}
		}
	}
}

// texts gives every text in a document of YAML, whatever it is nested in.
func texts(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, e := range v {
			all = append(all, texts(e)...)
		}
	case map[string]any:
		for _, e := range v {
			all = append(all, texts(e)...)
		}
	}
	return all
}

// accepted holds that a line is one that the command takes.
func accepted(t *testing.T, file string, args []string) *cobra.Command {
	t.Helper()
	c, rest, err := root().Find(args)
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err == nil {
		err = c.ValidateArgs(c.Flags().Args())
	}
	if err != nil {
		t.Errorf("%s: amnesia %s: %v", file, strings.Join(args, " "), err)
	}
	return c
}

// shellWords splits a line as a shell would, where it uses double quotes around words only; the number of cycles is 20.
func shellWords(line string) (words []string) {
	for _, w := range strings.Fields(line) {
		if w = strings.Trim(w, `"`); w == "$CYCLES" {
			w = "20"
		}
		words = append(words, w)
	}
	return words
}
