package config

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// maxSize of a configuration is far above any real one; the YAML parser takes quadratic time on hostile ones.
	maxSize = 64 << 10
	// maxList is that of the files it names: accounts, secrets.
	maxList = 4 << 20
	// maxDepth keeps a hostile file from exhausting the parser's stack.
	maxDepth = 64
)

// Check is a rule that another package adds, such as what a driver cannot do. It is asked only about a configuration
// that is right otherwise.
type Check func(*Config) []Problem

// Problem is a mistake at a path such as sessions.script.tell[2].
type Problem struct{ Path, What, Fix string }

// Source is a configuration file that was read; Name stands for it in messages.
type Source struct {
	Name string
	Data []byte
}

// Load reads and checks a file, with others laid over it in order (see merge). Relative file names in all of them start
// at the folder of the first. getenv is asked for the variables that the files name. The error is an Errors.
func Load(paths []string, getenv func(string) string, checks ...Check) (*Config, error) {
	var sources []Source
	var errs Errors
	for _, path := range paths {
		data, err := readFile(path, maxSize)
		if err != nil {
			var f fileError
			errors.As(err, &f)
			errs = append(errs, Error{File: path, What: f.what, Fix: f.fix, cause: f.cause})
		}
		sources = append(sources, Source{path, data})
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return Parse(sources, getenv, checks...)
}

// Parse is Load for files that were read; there must be one.
func Parse(sources []Source, getenv func(string) string, checks ...Check) (*Config, error) {
	l := &loader{
		name: sources[0].Name, dir: filepath.Dir(sources[0].Name), getenv: getenv, origin: map[*token.Token]string{},
		bad: map[string]bool{}, unread: map[string]bool{}, at: map[string]place{}, text: map[string]string{},
	}
	c := new(Config)
	if root := l.merged(sources); root != nil {
		l.mapping(root, reflect.ValueOf(c).Elem(), "", "")
		l.check(c)
	}
	c.hidden = hide(l.secrets)
	if len(l.errs) == 0 {
		for _, check := range checks {
			for _, p := range check(c) {
				l.fail(p.Path, p.What, p.Fix)
			}
		}
	}
	if len(l.errs) > 0 {
		l.errs.sort()
		return nil, l.errs
	}
	return c, nil
}

// syntax gives the one mapping that a file is, or nil after a mistake.
func (l *loader) syntax(name string, data []byte) *ast.MappingNode {
	refuse := func(line, column int, what, fix string) {
		l.errs = append(l.errs, Error{File: name, Line: line, Column: column, What: what, Fix: fix})
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	if len(data) > maxSize {
		refuse(1, 1, fmt.Sprintf("the file is larger than %d KiB", maxSize>>10), "name the right file")
		return nil
	}
	if line, column := tooDeep(data); line > 0 {
		refuse(line, column, fmt.Sprintf("more than %d levels deep", maxDepth), "name the right file")
		return nil
	}
	file, err := parseYAML(data)
	if err != nil {
		l.notYAML(data, err, refuse)
		return nil
	}
	var docs []*ast.DocumentNode
	for _, d := range file.Docs {
		if _, comment := d.Body.(*ast.CommentGroupNode); d.Body != nil && !comment {
			docs = append(docs, d)
		}
	}
	if len(docs) == 0 {
		refuse(1, 1, "the file is empty", `begin with "version: 1"; "amnesia init" writes a whole one`)
		return nil
	}
	for _, extra := range docs[1:] {
		at := l.placeOf(extra.Body)
		refuse(at.line, at.column, "a second document begins here", "keep one document, and remove the --- between")
	}
	if len(docs) > 1 {
		return nil
	}
	root, ok := docs[0].Body.(*ast.MappingNode)
	if !ok {
		at := l.placeOf(docs[0].Body)
		refuse(at.line, at.column, "the file is no mapping", `begin with "version: 1"`)
	}
	return root
}

// parseYAML is the library's parser; a panic in it is a file that cannot be read.
func parseYAML(data []byte) (f *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			f, err = nil, fmt.Errorf("cannot be parsed: %v", p)
		}
	}()
	return parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
}

// notYAML explains a syntax error. The parser stops at the first; tabs, which are the commonest, are all shown.
func (l *loader) notYAML(data []byte, err error, refuse func(line, column int, what, fix string)) {
	tabs := false
	for i, line := range strings.Split(string(data), "\n") {
		if indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]; strings.Contains(indent, "\t") {
			tabs = true
			refuse(i+1, strings.Index(indent, "\t")+1, "a tab indents this line", "use spaces")
		}
	}
	if tabs {
		return
	}
	line, column, what := 1, 1, err.Error()
	if y, ok := errors.AsType[yaml.Error](err); ok {
		what = y.GetMessage()
		if t := y.GetToken(); t != nil && t.Position != nil {
			line, column = t.Position.Line, t.Position.Column
		}
	}
	refuse(line, column, "this is no YAML: "+what, "check the indentation, the quotes and the brackets here")
}

// tooDeep finds where flow brackets or indicators nest beyond maxDepth: a rough, safe count that ignores quoting.
func tooDeep(data []byte) (line, column int) {
	line, column = 1, 0
	depth := 0
	for _, b := range data {
		column++
		switch b {
		case '\n':
			line, column = line+1, 0
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(0, depth-1)
		}
		if depth > maxDepth {
			return line, column
		}
	}
	return 0, 0
}
