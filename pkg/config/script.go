package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/ohler55/ojg/jp"

	"amnesia/pkg/session"
)

const scriptPath = "sessions.script"

// ScriptProblems gives the *session.ScriptError that err is, wraps or joins as problems: for a Check that asks a driver
// what it cannot do.
func ScriptProblems(err error) []Problem {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var out []Problem
		for _, e := range many.Unwrap() {
			out = append(out, ScriptProblems(e)...)
		}
		return out
	}
	s, ok := errors.AsType[*session.ScriptError](err)
	if !ok {
		what, fix := split(err)
		return []Problem{{scriptPath, what, fix}}
	}
	path := scriptPath + "." + s.Section
	if s.Step > 0 {
		path = fmt.Sprintf("%s[%d]", path, s.Step-1)
	}
	if s.Field != "" {
		path += "." + s.Field
	}
	what, fix := split(errors.New(s.Problem))
	return []Problem{{path, what, fix}}
}

// script checks every template at its own place, then what the script means. Of a step that could not be read, the
// second has nothing to say.
func (l *loader) script(s *session.Script) {
	captured := make(map[string]bool)
	for _, steps := range [][]session.Step{s.Signup, s.Login, s.Tell, s.Recall, s.Ask, s.Forget, s.Logout, s.Cleanup} {
		for _, step := range steps {
			if step.Request != nil {
				for name := range step.Request.Capture {
					captured[name] = true
				}
			}
		}
	}
	for _, path := range l.texts {
		known := []string{"Run", "N", "User", "Password", "Captured"}
		section, _, _ := strings.Cut(strings.TrimPrefix(path, scriptPath+"."), "[")
		if slices.Contains([]string{"tell", "ask", "forget"}, section) {
			known = append(known, "Memory", "Token", "Question", "ID")
		}
		l.template(path, l.text[path], known, captured)
	}
	if l.bad[scriptPath] || !l.has(scriptPath) {
		return
	}
	_, err := session.CompileScript(s)
	for _, p := range ScriptProblems(err) {
		step, _, _ := strings.Cut(p.Path, "]")
		if strings.Contains(p.Path, "]") {
			step += "]"
		}
		if !l.bad[step] && !l.badBelow(step) {
			l.fail(p.Path, p.What, p.Fix)
		}
	}
}

// jsonPath checks a JSONPath; one that is a template is known only later.
func (l *loader) jsonPath(path, text string) {
	if text == "" || strings.Contains(text, "{{") {
		return
	}
	if _, err := jp.ParseString(text); err != nil {
		l.fail(path, fmt.Sprintf("%q is no JSONPath: %v", text, err), "write it as $.items[*].text")
	}
}

// template checks that a text is a template over the known values.
func (l *loader) template(path, text string, known []string, captured map[string]bool) {
	if !strings.Contains(text, "{{") {
		return
	}
	t, err := template.New("").Parse(text)
	if err != nil {
		l.fail(path, "the template cannot be read: "+strings.TrimPrefix(err.Error(), "template: :"), "correct it; a value is written {{.User}}")
		return
	}
	for _, t := range t.Templates() {
		loops := fieldsIn(t.Root, func(ident []string) {
			switch name := ident[0]; {
			case !slices.Contains(known, name):
				fix := "write one of ." + strings.Join(known, ", .")
				if near := nearest(name, known); near != "" {
					fix = "write ." + near
				}
				l.fail(path, fmt.Sprintf("there is no .%s here", name), fix)
			case name == "Captured" && len(ident) > 1 && !captured[ident[1]]:
				l.fail(path, fmt.Sprintf("no request captures %q", ident[1]), fmt.Sprintf("add capture: {%s: $.…} to a request", ident[1]))
			}
		})
		if loops {
			l.fail(path, "the template loops, and there is nothing to go over", "write it without range")
		}
	}
}

// fieldsIn visits every .Field of a template's syntax tree, in all branches, and reports whether it loops.
func fieldsIn(n parse.Node, visit func(ident []string)) (loops bool) {
	switch n := n.(type) {
	case *parse.FieldNode:
		visit(n.Ident)
	case *parse.ListNode:
		if n == nil {
			return false
		}
		for _, m := range n.Nodes {
			loops = fieldsIn(m, visit) || loops
		}
	case *parse.ActionNode:
		fieldsIn(n.Pipe, visit)
	case *parse.IfNode:
		fieldsIn(n.Pipe, visit)
		list, other := fieldsIn(n.List, visit), fieldsIn(n.ElseList, visit)
		return list || other
	case *parse.RangeNode:
		return true
	case *parse.WithNode:
		// Within, the dot is something else.
		fieldsIn(n.Pipe, visit)
		return fieldsIn(n.List, func([]string) {})
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			for _, a := range c.Args {
				fieldsIn(a, visit)
			}
		}
	}
	return loops
}
