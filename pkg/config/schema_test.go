package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// TestSchemaKnowsWhatTheLoaderKnows asks the loader, for every mapping that the schema describes, which keys it takes.
func TestSchemaKnowsWhatTheLoaderKnows(t *testing.T) {
	var s object
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	defs := s["$defs"].(object)
	probes := map[string]string{ // a file in which %s stands where the keys of the definition stand
		"Config":            "%s",
		"Target":            "target: {%s}",
		"Service":           "target: {services: {app: {%s}}}",
		"Sessions":          "sessions: {%s}",
		"Browser":           "sessions: {browser: {%s}}",
		"Script":            "sessions: {script: {%s}}",
		"Step":              "sessions: {script: {tell: [{%s}]}}",
		"Fill":              "sessions: {script: {tell: [{fill: {%s}}]}}",
		"Press":             "sessions: {script: {tell: [{press: {%s}}]}}",
		"Select":            "sessions: {script: {tell: [{select: {%s}}]}}",
		"Expect":            "sessions: {script: {tell: [{expect: {%s}}]}}",
		"Ack":               "sessions: {script: {tell: [{acknowledged: {%s}}]}}",
		"Read":              "sessions: {script: {tell: [{read: {%s}}]}}",
		"More":              "sessions: {script: {tell: [{read: {more: {%s}}}]}}",
		"Request":           "sessions: {script: {tell: [{request: {%s}}]}}",
		"ExpectResponse":    "sessions: {script: {tell: [{request: {expect: {%s}}}]}}",
		"view_page":         "views: {page: {%s}}",
		"view_answer":       "views: {answer: {%s}}",
		"view_sqlite":       "views: {sqlite: {%s}}",
		"view_http":         "views: {http: {%s}}",
		"view_redis":        "views: {redis: {%s}}",
		"view_postgres":     "views: {postgres: {%s}}",
		"view_chroma":       "views: {chroma: {%s}}",
		"view_chroma_query": "views: {chroma_query: {%s}}",
		"ChromaMatch":       "views: {chroma: {match: {%s}}}",
		"Contract":          "views: {page: {contract: {%s}}}",
		"MayLose":           "views: {page: {contract: {may_lose: {%s}}}}",
		"Fault":             "faults: [{%s}]",
		"Known":             "known: [{%s}]",
		"Limits":            "limits: {%s}",
		"Ledger":            "ledger: {%s}",
		"Evidence":          "evidence: {%s}",
		"Web":               "web: {%s}",
	}
	defs["Config"] = s
	delete(defs, "View")
	for name, def := range defs {
		probe, ok := probes[name]
		if !ok {
			t.Errorf("the schema describes %s, and this test does not know where it stands", name)
			continue
		}
		delete(probes, name)
		_, err := Parse([]Source{{"probe.yaml", fmt.Appendf(nil, probe, "qqqqqqqqqqqqqqqqqqqq: 1")}}, environment)
		_, list, ok := strings.Cut(fmt.Sprint(err), "the keys here are ")
		if !ok {
			t.Errorf("%s: the loader does not list its keys: %v", name, err)
			continue
		}
		list, _, _ = strings.Cut(list, "\n")
		loader := strings.Split(list, ", ")
		slices.Sort(loader)
		properties := def.(object)["properties"].(object)
		if keys := slices.Sorted(maps.Keys(properties)); !slices.Equal(keys, loader) {
			t.Errorf("%s: the schema has %v, the loader takes %v", name, keys, loader)
		}
		for key, p := range properties {
			if p.(object)["description"] == nil {
				t.Errorf("describe.txt says nothing of %s.%s", name, key)
			}
		}
	}
	for name := range probes {
		t.Errorf("the schema does not describe %s", name)
	}
}

// TestDescriptionsAreUsed finds lines of describe.txt whose key is gone.
func TestDescriptionsAreUsed(t *testing.T) {
	text := string(Schema())
	for line := range strings.Lines(described) {
		key, about, ok := strings.Cut(strings.TrimSpace(line), ": ")
		quoted, _ := json.Marshal(about)
		if !ok || !strings.Contains(text, string(quoted)) {
			t.Errorf("describe.txt: %s is not in the schema", key)
		}
	}
}

// notBySchema are the bad files whose mistake needs more than one place, or more than the schema's words, to be seen.
var notBySchema = []string{
	"accounts-file", "accounts-shared", "accounts-short", "browsers-elsewhere", "command-missing", "counts-from", "documents", "driver", "engine-docker", "fault-keys",
	"fault-service", "fault-service-missing", "fault-supervised", "hours", "levels", "listen", "merge-key", "project", "scratch-outside",
	"script-meaning", "secrets-both", "services-none", "sizes", "tags", "templates", "version", "view-app-missing",
	"view-needs-section", "view-service", "view-user-name", "views-none", "web", "wipe-volume",
}

// TestSchemaJudgesAsTheLoaderDoes holds the schema against the files that the loader takes and refuses.
func TestSchemaJudgesAsTheLoaderDoes(t *testing.T) {
	var s object
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	for _, good := range []string{"testdata/full.yaml", "testdata/minimal.yaml"} {
		if why := matches(s, s, document(t, good)); why != "" {
			t.Errorf("%s: the schema refuses it: %s", good, why)
		}
	}
	files, _ := filepath.Glob("testdata/bad/*.yaml")
	for _, bad := range files {
		name := strings.TrimSuffix(filepath.Base(bad), ".yaml")
		doc := document(t, bad)
		if doc == nil { // not YAML at all, or nothing that a schema sees
			continue
		}
		refused := matches(s, s, doc) != ""
		if expected := !slices.Contains(notBySchema, name); refused != expected {
			t.Errorf("%s: refused by the schema: %v, expected %v", name, refused, expected)
		}
	}
}

// document reads a file as an editor's YAML server would; nil where YAML itself refuses it.
func document(t *testing.T, name string) any {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if yaml.Unmarshal(data, &doc) != nil {
		return nil
	}
	return doc
}

// matches is as much of a JSON Schema validator as the schema uses; it gives the reason for a refusal.
func matches(root, s object, v any) string {
	if ref, ok := s["$ref"].(string); ok {
		def := root["$defs"].(object)[strings.TrimPrefix(ref, "#/$defs/")]
		if why := matches(root, def.(object), v); why != "" {
			return why
		}
	}
	if cond, ok := s["if"].(object); ok {
		branch := "then"
		if matches(root, cond, v) != "" {
			branch = "else"
		}
		if why := matches(root, s[branch].(object), v); why != "" {
			return why
		}
	}
	for _, sub := range list(s["allOf"]) {
		if why := matches(root, sub.(object), v); why != "" {
			return why
		}
	}
	if some := list(s["anyOf"]); some != nil && !slices.ContainsFunc(some, func(sub any) bool { return matches(root, sub.(object), v) == "" }) {
		return fmt.Sprintf("%v is none of the allowed", v)
	}
	types := list(s["type"])
	if one, ok := s["type"].(string); ok {
		types = []any{one}
	}
	if types != nil && !slices.ContainsFunc(types, func(name any) bool { return is(v, name.(string)) }) {
		return fmt.Sprintf("%v is no %v", v, s["type"])
	}
	if words := list(s["enum"]); words != nil && !slices.Contains(words, v) {
		return fmt.Sprintf("%v is none of %v", v, words)
	}
	switch v := v.(type) {
	case string:
		if p, ok := s["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(v) {
			return fmt.Sprintf("%q does not match %s", v, p)
		}
		if n, ok := s["minLength"].(float64); ok && len(v) < int(n) {
			return "an empty text"
		}
	case map[string]any:
		for _, key := range list(s["required"]) {
			if _, ok := v[key.(string)]; !ok {
				return fmt.Sprintf("%v is missing", key)
			}
		}
		if n, ok := s["maxProperties"].(float64); ok && len(v) > int(n) {
			return "too many keys"
		}
		if n, ok := s["minProperties"].(float64); ok && len(v) < int(n) {
			return "too few keys"
		}
		properties, _ := s["properties"].(object)
		for key, item := range v {
			if names, ok := s["propertyNames"].(object); ok {
				if why := matches(root, names, key); why != "" {
					return why
				}
			}
			sub, known := properties[key].(object)
			if !known {
				if s["additionalProperties"] == false {
					return "unknown key " + key
				}
				if sub, known = s["additionalProperties"].(object); !known {
					continue
				}
			}
			if why := matches(root, sub, item); why != "" {
				return key + ": " + why
			}
		}
	case []any:
		for _, item := range v {
			if sub, ok := s["items"].(object); ok {
				if why := matches(root, sub, item); why != "" {
					return why
				}
			}
		}
	default:
		if least, ok := s["minimum"].(float64); ok {
			if n := reflect.ValueOf(v); n.CanInt() && float64(n.Int()) < least || n.CanUint() && float64(n.Uint()) < least || n.CanFloat() && n.Float() < least {
				return fmt.Sprintf("%v is too small", v)
			}
		}
	}
	return ""
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func is(v any, name string) bool {
	switch v := v.(type) {
	case string:
		return name == "string"
	case bool:
		return name == "boolean"
	case float64:
		return name == "number"
	case int, uint64, int64:
		return name == "integer" || name == "number"
	case map[string]any:
		return name == "object"
	case []any:
		return name == "array"
	case nil:
		return name == "null"
	default:
		panic(fmt.Sprintf("%T", v))
	}
}
