package config

import (
	"encoding"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// loader fills a Config from a syntax tree and collects every mistake on the way. (The YAML library's own decoder stops
// at the first.)
type loader struct {
	name   string                  // of the first file
	origin map[*token.Token]string // the file of what another one laid over it
	dir    string                  // where relative names start
	getenv func(string) string
	errs   Errors
	bad    map[string]bool  // paths that have an error: the first one is the one that explains
	unread map[string]bool  // paths of the wrong type: nothing is known of what is below
	at     map[string]place // where the values that the files have stand
	texts  []string         // paths of texts in the script
	text   map[string]string
	// secrets are those that were read.
	secrets []Secret
}

type place struct {
	file         string
	line, column int
}

// fail notes a mistake at a path: at its value, or where the file does not have it, at the nearest value around it.
func (l *loader) fail(path, what, fix string) {
	if l.bad[path] {
		return
	}
	at := place{l.name, 1, 1}
	for where, found := path, false; where != ""; where = outer(where) {
		if l.unread[where] {
			return
		}
		if p, ok := l.at[where]; ok && !found {
			at, found = p, true
		}
	}
	l.bad[path] = true
	l.errs = append(l.errs, Error{File: at.file, Line: at.line, Column: at.column, Path: path, What: what, Fix: fix})
}

// outer gives the path around a path; "" around the outermost.
func outer(path string) string { return path[:max(0, strings.LastIndexAny(path, ".["))] }

// failWith is fail for an error that may carry its own fix.
func (l *loader) failWith(path string, err error) {
	what, fix := split(err)
	l.fail(path, what, fix)
}

// has reports whether the file has a value at the path.
func (l *loader) has(path string) bool { _, ok := l.at[path]; return ok }

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// placeOf gives where a node begins.
func (l *loader) placeOf(n ast.Node) place {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return l.placeOf(m.Values[0].Key)
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return place{l.fileOf(t), t.Position.Line, t.Position.Column}
	}
	return place{l.name, 1, 1}
}

// pairs gives the entries of a mapping; ok is false for any other node.
func pairs(n ast.Node) (entries []*ast.MappingValueNode, ok bool) {
	if m, ok := n.(*ast.MappingNode); ok {
		return m.Values, true
	}
	return nil, false
}

// each calls fn for every entry of a mapping, at most once for each key.
func (l *loader) each(n ast.Node, path string, t reflect.Type, fn func(key, path string, value ast.Node)) {
	entries, ok := pairs(n)
	if !ok {
		l.wrong(n, path, t)
		return
	}
	seen := make(map[string]int)
	for _, e := range entries {
		at := l.placeOf(e.Key)
		key, ok := scalar(e.Key)
		if !ok {
			key = e.Key.String()
			l.at[join(path, key)] = at
			l.fail(join(path, key), "this kind of key is not read here", "write a plain word and a value")
			continue
		}
		if l.twice(seen, key, e, join(path, key)) {
			continue
		}
		l.at[join(path, key)] = at
		if isNull(e.Value) {
			if t != nil {
				l.fail(join(path, key), "has no value", "give it one, or remove the key")
				continue
			}
		}
		fn(key, join(path, key), e.Value)
	}
}

// scalar gives the text of a scalar as it stands in the file.
func scalar(n ast.Node) (string, bool) {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, true
	case *ast.LiteralNode:
		return s.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// wrong notes that a node is not of the type.
func (l *loader) wrong(n ast.Node, path string, t reflect.Type) {
	defer func() { l.unread[path] = true }()
	want := shape(t)
	have, fix := "something else", "write "+want
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		l.fail(path, "anchors, aliases and tags are not read here", "write the value out")
		return
	case *ast.MappingNode:
		have = "a mapping"
		if want == "a list" {
			fix = `write a list: put "- " before each item`
		}
	case *ast.SequenceNode:
		have = "a list"
	case *ast.NullNode:
		have = "nothing"
	default:
		text, _ := scalar(n)
		have = strconv.Quote(text)
		switch {
		case want == "a list":
			fix = fmt.Sprintf("write a list: [%s]", strings.Join(strings.Fields(text), ", "))
		case want == "a text":
			fix = "write it in quotes: " + strconv.Quote(text)
		case strings.HasSuffix(want, "number") && number.MatchString(text):
			fix = "write it without quotes: " + text
		case t.Kind() == reflect.Bool && slices.Contains([]string{"yes", "on", "1"}, strings.ToLower(text)):
			fix = "write true"
		case t.Kind() == reflect.Bool && slices.Contains([]string{"no", "off", "0"}, strings.ToLower(text)):
			fix = "write false"
		}
	}
	l.fail(path, fmt.Sprintf("wants %s, has %s", want, have), fix)
}

// decode puts a node into v, which is settable.
func (l *loader) decode(n ast.Node, v reflect.Value, path string, f field) {
	switch t := v.Type(); {
	case t == valuesType:
		l.values(n, v, path)
	case t == secretType:
		if text, ok := l.word(n, path, f); ok {
			v.Set(reflect.ValueOf(l.secret(path, f.from, text)))
		}
	case t.Kind() == reflect.Pointer:
		p := reflect.New(t.Elem())
		l.decode(n, p.Elem(), path, f)
		v.Set(p)
	case t == durationType || isText(t):
		text, ok := scalar(n)
		if !ok {
			l.wrong(n, path, t)
			return
		}
		l.at[path] = l.placeOf(n)
		if err := fromText(v, text); err != nil {
			l.failWith(path, err)
		}
	case t.Kind() == reflect.Struct:
		l.mapping(n, v, path, "")
	case t.Kind() == reflect.Slice:
		if key, ok := keyed(t); ok {
			l.named(n, v, path, key)
			return
		}
		l.list(n, v, path, f)
	case t.Kind() == reflect.Map:
		out := reflect.MakeMap(t)
		l.each(n, path, t, func(key, path string, value ast.Node) {
			e := reflect.New(t.Elem()).Elem()
			l.decode(value, e, path, f)
			out.SetMapIndex(reflect.ValueOf(key), e)
		})
		v.Set(out)
	case t.Kind() == reflect.Interface:
		if x := l.free(n, path); x != nil {
			v.Set(reflect.ValueOf(x))
		}
	default:
		l.scalar(n, v, path, f)
	}
}

// scalar reads texts, numbers and booleans.
func (l *loader) scalar(n ast.Node, v reflect.Value, path string, f field) {
	var ok bool
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		ok = v.Kind() == reflect.String
	case *ast.IntegerNode:
		ok = v.Kind() == reflect.Int || v.Kind() == reflect.Uint64 || v.Kind() == reflect.Float64
	case *ast.FloatNode:
		ok = v.Kind() == reflect.Float64
	case *ast.BoolNode:
		ok = v.Kind() == reflect.Bool
	}
	if _, isScalar := scalar(n); isScalar {
		l.at[path] = l.placeOf(n)
	}
	if !ok {
		l.wrong(n, path, v.Type())
		return
	}
	if v.Kind() == reflect.String {
		if text, ok := l.word(n, path, f); ok {
			if f.Tag.Get("path") != "" {
				text = l.file(text)
			}
			v.SetString(text)
		}
		return
	}
	text, _ := scalar(n)
	if err := fromText(v, text); err != nil {
		l.failWith(path, err)
		return
	}
	if least := f.min(); v.Kind() == reflect.Int && v.Int() < least {
		l.fail(path, fmt.Sprintf("%d is too small", v.Int()), fmt.Sprintf("write %d or more", least))
	}
}

// word reads a text and checks it against the words allowed.
func (l *loader) word(n ast.Node, path string, f field) (string, bool) {
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
	default:
		if _, isScalar := scalar(n); isScalar {
			l.at[path] = l.placeOf(n)
		}
		l.wrong(n, path, reflect.TypeFor[string]())
		return "", false
	}
	l.at[path] = l.placeOf(n)
	text, _ := scalar(n)
	if strings.HasPrefix(path, scriptPath+".") {
		l.texts = append(l.texts, path)
		l.text[path] = text
	}
	switch words := f.enum(); {
	case text == "" && !f.mayBeEmpty():
		l.fail(path, "is empty", "give it a value, or remove the key")
	case words != nil && !slices.Contains(words, text):
		l.fail(path, fmt.Sprintf("%q is not known", text), choice(text, words))
	}
	return text, true
}

// fromText sets v from its written form; also how defaults are set.
func fromText(v reflect.Value, text string) error {
	if v.Type() == durationType {
		d, err := parseDuration(text)
		v.SetInt(int64(d))
		return err
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	var err error
	switch v.Kind() {
	case reflect.Int:
		var n int64
		n, err = strconv.ParseInt(text, 0, 32)
		v.SetInt(n)
	case reflect.Uint64:
		var n uint64
		n, err = strconv.ParseUint(text, 0, 64)
		v.SetUint(n)
	case reflect.Float64:
		var x float64
		x, err = strconv.ParseFloat(text, 64)
		v.SetFloat(x)
	case reflect.Bool:
		v.SetBool(strings.EqualFold(text, "true"))
	default:
		v.SetString(text)
	}
	if err != nil {
		return mistake{fmt.Sprintf("%s is out of range", text), "write a smaller whole number, not below 0"}
	}
	return nil
}

// defaults fills a struct in before the file is read into it.
func (l *loader) defaults(v reflect.Value, kind string) {
	for _, f := range fieldsOf(v.Type(), kind) {
		to := v.FieldByIndex(f.Index)
		text, ok := f.Tag.Lookup("default")
		switch {
		case ok && f.Tag.Get("path") != "":
			to.SetString(l.file(text))
		case ok:
			if err := fromText(to, text); err != nil {
				panic(fmt.Sprintf("default of %s.%s: %v", f.owner, f.key, err)) // ours, and every test would meet it
			}
		case to.Kind() == reflect.Struct && !isText(to.Type()) && to.Type() != secretType:
			l.defaults(to, kind)
		}
	}
}

// file makes a name from the file relative to its folder.
func (l *loader) file(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(l.dir, name)
}

// mapping reads the keys of a struct.
func (l *loader) mapping(n ast.Node, v reflect.Value, path, kind string) {
	l.defaults(v, kind)
	fields := fieldsOf(v.Type(), kind)
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
	}
	var seen []string
	l.each(n, path, v.Type(), func(key, path string, value ast.Node) {
		i := slices.Index(keys, key)
		if i < 0 {
			l.unknown(path, key, keys, v.Type(), kind)
			return
		}
		seen = append(seen, key)
		if v.Type() == stepType && len(seen) > 1 {
			l.fail(path, fmt.Sprintf("a step does one thing, and this one has %s already", seen[0]),
				`begin a new step: put "- " before it`)
		}
		l.decode(value, v.FieldByIndex(fields[i].Index), path, fields[i])
	})
	if l.bad[path] {
		return
	}
	for _, f := range fields {
		if f.required && !slices.Contains(seen, f.key) {
			l.fail(join(path, f.key), "is missing", fmt.Sprintf("add %s: %s", f.key, shape(f.Type)))
		}
	}
}

// unknown notes a key that is not known, with the one that was meant where that can be guessed.
func (l *loader) unknown(path, key string, keys []string, t reflect.Type, kind string) {
	what := fmt.Sprintf("unknown key %q", key)
	if t == viewType {
		what += " for a view of kind " + kind
	}
	if slices.Contains(keys, key+"_env") {
		l.fail(path, "a secret does not stand in the file", fmt.Sprintf("write %s_env: NAME or %s_file: PATH", key, key))
		return
	}
	if near := nearest(key, keys); near != "" {
		l.fail(path, what, fmt.Sprintf("write %q", near))
		return
	}
	l.fail(path, what, "remove it; the keys here are "+strings.Join(keys, ", "))
}
