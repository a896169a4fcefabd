package config

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// values reads Values.
func (l *loader) values(n ast.Node, v reflect.Value, path string) {
	out := Values{}
	l.each(n, path, valuesType, func(key, path string, value ast.Node) {
		if entries, ok := pairs(value); ok {
			l.source(entries, path, func(s Secret) { out[key] = s })
			return
		}
		switch value.(type) {
		case *ast.StringNode, *ast.LiteralNode, *ast.IntegerNode, *ast.FloatNode:
		default:
			l.wrong(value, path, reflect.TypeFor[string]())
			return
		}
		l.at[path] = l.placeOf(value)
		text, _ := scalar(value)
		out[key] = NewSecret(text)
	})
	v.Set(reflect.ValueOf(out))
}

// source reads {env: NAME} or {file: PATH}.
func (l *loader) source(entries []*ast.MappingValueNode, path string, set func(Secret)) {
	const fix = "write a text, {env: NAME} or {file: PATH}"
	if len(entries) != 1 {
		l.fail(path, "wants exactly one of env and file", fix)
		return
	}
	from, _ := scalar(entries[0].Key)
	name, ok := scalar(entries[0].Value)
	if !ok || from != "env" && from != "file" {
		l.fail(path, "this says no place to read the value from", fix)
		return
	}
	l.at[path] = l.placeOf(entries[0].Value)
	set(l.secret(path, from, name))
}

// secret reads a text from the environment or from a file, less the line break at its end.
func (l *loader) secret(path, from, name string) Secret {
	if from == "env" {
		value := l.getenv(name)
		if value == "" {
			l.fail(path, fmt.Sprintf("the environment variable %s is not set", name), "set it for the daemon")
		}
		return l.hold(value)
	}
	data, err := readFile(l.file(name), maxList)
	if err != nil {
		l.failWith(path, err)
		return Secret{}
	}
	value := strings.TrimRight(string(data), "\r\n")
	if value == "" {
		l.fail(path, fmt.Sprintf("the file %s is empty", name), "put the secret into it")
	}
	return l.hold(value)
}

// hold wraps a secret, and notes that there is one.
func (l *loader) hold(value string) Secret {
	s := NewSecret(value)
	l.secrets = append(l.secrets, s)
	return s
}

// readFile reads a file of at most so many bytes; its errors say what to do.
func readFile(name string, most int) ([]byte, error) {
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fileError{mistake{fmt.Sprintf("there is no file %s", name), "correct the name, or make the file"}, err}
	}
	if err != nil {
		return nil, fileError{mistake{err.Error(), "let the daemon's user read it"}, err}
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return nil, fileError{mistake{err.Error(), "name a plain file that can be read"}, err}
	}
	if len(data) > most {
		return nil, fileError{mistake{fmt.Sprintf("the file %s is larger than %d KiB", name, most>>10), "name the right file"}, nil}
	}
	return data, nil
}

// fileError is a mistake with what the operating system said.
type fileError struct {
	mistake
	cause error
}

// logins reads an accounts file: a name and a password a line.
func (l *loader) logins(path, name string, users int) []Login {
	data, err := readFile(name, maxList)
	if err != nil {
		l.failWith(path, err)
		return nil
	}
	r := csv.NewReader(strings.NewReader(string(data)))
	r.FieldsPerRecord = 2
	r.Comment = '#'
	rows, err := r.ReadAll()
	if err != nil {
		// What the reader says of a line never quotes it: passwords stay where they are.
		l.fail(path, fmt.Sprintf("%s: %v", name, err), "write a name, a comma and a password on each line")
		return nil
	}
	out := make([]Login, 0, len(rows))
	seen := make(map[string]bool)
	for _, row := range rows {
		if seen[row[0]] {
			l.fail(path, fmt.Sprintf("%s names %q twice", name, row[0]), "give each account one line")
		}
		seen[row[0]] = true
		out = append(out, Login{row[0], l.hold(row[1])})
	}
	if len(out) < users {
		l.fail(path, fmt.Sprintf("%s has %d accounts for %d users", name, len(out), users),
			fmt.Sprintf("add accounts, or write users: %d", len(out)))
	}
	return out
}
