package session

import (
	"fmt"
	"strings"

	"github.com/gobwas/glob"
	"github.com/ohler55/ojg/jp"
	"github.com/ohler55/ojg/oj"
)

// Glob compiles a pattern over addresses: * stays within a path segment, ** crosses them. A pattern that holds no "?"
// is matched against the address without its query and fragment, so that **/login means /login?next=/chat too.
func Glob(pattern string) (func(url string) bool, error) {
	g, err := glob.Compile(pattern, '/')
	if err != nil {
		return nil, fmt.Errorf("the glob %q: %w", pattern, err)
	}
	if strings.Contains(pattern, "?") {
		return g.Match, nil
	}
	return func(url string) bool {
		if i := strings.IndexAny(url, "?#"); i >= 0 {
			url = url[:i]
		}
		return g.Match(url)
	}, nil
}

// Holds reports whether text holds want, where runs of white space count as one space.
func Holds(text, want string) bool {
	return strings.Contains(text, want) || strings.Contains(fields(text), fields(want))
}

// Same reports whether two texts are the same to a reader: a textarea submits \r\n for \n, and stores and pages trim.
// Nothing else is forgiven.
func Same(a, b string) bool { return a == b || plain(a) == plain(b) }

func fields(s string) string { return strings.Join(strings.Fields(s), " ") }

var newlines = strings.NewReplacer("\r\n", "\n", "\r", "\n")

func plain(s string) string {
	lines := strings.Split(newlines.Replace(s), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " \t")
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// Lookup gives what a JSONPath finds in a JSON document, in order: strings as they are, null not at all, anything else
// as JSON.
func Lookup(body []byte, path string) ([]string, error) {
	expr, err := jp.ParseString(path)
	if err != nil {
		return nil, &RigError{fmt.Errorf("the JSONPath %q: %w", path, err)}
	}
	doc, err := oj.Parse(body)
	if err != nil {
		return nil, fmt.Errorf("the response is no JSON: %w", err)
	}
	var texts []string
	for _, v := range expr.Get(doc) {
		switch v := v.(type) {
		case nil:
		case string:
			texts = append(texts, v)
		default:
			texts = append(texts, oj.JSON(v))
		}
	}
	return texts, nil
}
