package config

import (
	"fmt"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// merged gives the mapping that the files are together, or nil after a mistake in one of them.
func (l *loader) merged(sources []Source) ast.Node {
	var root *ast.MappingNode
	for i, s := range sources {
		next := l.syntax(s.Name, s.Data)
		switch {
		case next == nil:
		case i == 0:
			root = next
		case len(l.errs) == 0:
			ast.Walk(origins{l.origin, s.Name}, next)
			l.merge(root, next, "")
		}
	}
	if len(l.errs) > 0 {
		return nil
	}
	return root
}

// merge lays a mapping over another one, as Compose does with its files: mappings are merged key by key, anything else
// takes the place of what was there, and a key without a value takes away the one that was there.
func (l *loader) merge(base, over *ast.MappingNode, path string) {
	seen := map[string]int{}
	for _, e := range over.Values {
		key, ok := scalar(e.Key)
		if ok && l.twice(seen, key, e, join(path, key)) {
			continue
		}
		at := -1
		for i, b := range base.Values {
			if k, isScalar := scalar(b.Key); ok && isScalar && k == key {
				at = i
			}
		}
		switch {
		case at < 0:
			base.Values = append(base.Values, e)
		case isNull(e.Value):
			base.Values = append(base.Values[:at:at], base.Values[at+1:]...)
		default:
			below, isMapping := e.Value.(*ast.MappingNode)
			if into, ok := base.Values[at].Value.(*ast.MappingNode); ok && isMapping {
				l.merge(into, below, join(path, key))
				continue
			}
			base.Values[at] = e
		}
	}
}

func isNull(n ast.Node) bool {
	_, null := n.(*ast.NullNode)
	return null || n == nil
}

// fileOf gives the file in which a token stands.
func (l *loader) fileOf(t *token.Token) string {
	if name, ok := l.origin[t]; ok {
		return name
	}
	return l.name
}

// origins notes of what file the nodes are.
type origins struct {
	of   map[*token.Token]string
	name string
}

func (o origins) Visit(n ast.Node) ast.Visitor {
	if t := n.GetToken(); t != nil {
		o.of[t] = o.name
	}
	return o
}

// twice notes a key of a mapping that is there already; seen holds the lines of those before it.
func (l *loader) twice(seen map[string]int, key string, e *ast.MappingValueNode, path string) bool {
	at := l.placeOf(e.Key)
	line, twice := seen[key]
	if twice {
		l.errs = append(l.errs, Error{File: at.file, Line: at.line, Column: at.column, Path: path,
			What: fmt.Sprintf("the key is there twice, first on line %d", line), Fix: "remove one of them"})
	} else {
		seen[key] = at.line
	}
	return twice
}
