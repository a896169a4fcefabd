package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/ohler55/ojg/jp"

	"amnesia/pkg/session"
)

const scriptPath = "sessions.script"

// defaultLevel is the level of an acknowledgement that names none.
const defaultLevel = "settled"

// Levels gives the script's acknowledgement levels in order.
func (s Sessions) Levels() []string {
	var out []string
	for _, step := range s.Script.Tell {
		if step.Acknowledged != nil {
			out = append(out, step.Acknowledged.Level)
		}
	}
	return out
}

// section is one part of the script, with what may stand in it.
type section struct {
	name                string
	steps               []session.Step
	acknowledges, reads bool
}

func sections(s session.Script) []section {
	return []section{
		{name: "signup", steps: s.Signup},
		{name: "login", steps: s.Login},
		{name: "tell", steps: s.Tell, acknowledges: true},
		{name: "recall", steps: s.Recall, reads: true},
		{name: "ask", steps: s.Ask, reads: true},
		{name: "forget", steps: s.Forget, acknowledges: true},
		{name: "logout", steps: s.Logout},
		{name: "cleanup", steps: s.Cleanup},
	}
}

// script checks what the types cannot say.
func (l *loader) script(s session.Script) {
	captured := make(map[string]bool)
	for _, sec := range sections(s) {
		levels := make(map[string]bool)
		var acknowledged, read bool
		for i := range sec.steps {
			step, path := &sec.steps[i], fmt.Sprintf("%s.%s[%d]", scriptPath, sec.name, i)
			if a := step.Acknowledged; a != nil {
				if acknowledged = true; !sec.acknowledges {
					l.fail(path+".acknowledged", "nothing is acknowledged in "+sec.name, "use expect, or move it to tell")
				}
				if a.Level == "" {
					a.Level = defaultLevel
				}
				if levels[a.Level] {
					l.fail(path+".acknowledged.level", fmt.Sprintf("the level %s is there twice", a.Level), "give each acknowledged a level of its own")
				}
				levels[a.Level] = true
				l.condition(path+".acknowledged", &a.Expect)
			}
			if r := step.Read; r != nil {
				if read = true; !sec.reads {
					l.fail(path+".read", "nothing is read in "+sec.name, "move it to recall or ask")
				}
				l.read(path+".read", r)
			}
			l.condition(path+".expect", step.Expect)
			l.condition(path+".rejected", step.Rejected)
			if q := step.Request; q != nil {
				for name, p := range q.Capture {
					captured[name] = true
					l.jsonPath(path+".request.capture."+name, p)
				}
				if q.Expect != nil {
					l.jsonPath(path+".request.expect.json", q.Expect.JSON)
				}
				if q.JSON != nil && q.Form != nil {
					l.fail(path+".request.form", "a request has one body, and this one has json already", "remove json or form")
				}
			}
		}
		if len(sec.steps) == 0 {
			continue
		}
		where := scriptPath + "." + sec.name
		if sec.acknowledges && !acknowledged && !l.badBelow(where) {
			l.fail(where, "no step says how the user sees that it worked", `add - acknowledged: {selector: "…"}`)
		}
		if sec.reads && !read && !l.badBelow(where) {
			l.fail(where, "no step reads anything", `add - read: {selector: "…"}`)
		}
	}
	if l.has(scriptPath+".tell") && len(s.Tell) == 0 {
		l.fail(scriptPath+".tell", "has no steps", "say how a user tells the target something")
	}
	for _, path := range l.texts {
		l.template(path, l.text[path], reflect.TypeFor[session.Vars](), captured)
	}
}

// condition checks an Expect; nil is no mistake.
func (l *loader) condition(path string, e *session.Expect) {
	switch {
	case e == nil:
		return
	case e.URL == "" && e.Selector == "" && e.Response == "" && !l.badBelow(path):
		l.fail(path, "says nothing to wait for", "add url, selector or response")
	case e.State != "" && e.Selector == "":
		l.fail(path+".state", "there is no element to have a state", "add selector")
	case e.JSON != "" && e.Response == "":
		l.fail(path+".json", "there is no response to look into", "add response")
	case e.Contains != "" && e.Selector == "" && e.Response == "":
		l.fail(path+".contains", "there is nothing to contain it", "add selector or response")
	}
	l.jsonPath(path+".json", e.JSON)
	if _, err := session.Glob(e.URL); err != nil {
		l.fail(path+".url", err.Error(), "correct it; ** stands for anything")
	}
	if _, err := session.Glob(e.Response); err != nil {
		l.fail(path+".response", err.Error(), "correct it; ** stands for anything")
	}
}

func (l *loader) read(path string, r *session.Read) {
	if (r.Selector == "") == (r.JSON == "") && !l.badBelow(path) {
		l.fail(path, "wants exactly one of selector and json", "say where the texts are")
	}
	l.jsonPath(path+".json", r.JSON)
	l.condition(path+".ready", r.Ready)
	if m := r.More; m != nil {
		set := 0
		for _, s := range []string{m.Click, m.Scroll, m.JSON} {
			if s != "" {
				set++
			}
		}
		if set != 1 && !l.badBelow(path+".more") {
			l.fail(path+".more", "wants exactly one of click, scroll and json", "say how the rest of the list is reached")
		}
		l.jsonPath(path+".more.json", m.JSON)
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

// template checks that a text is a template over the fields of vars.
func (l *loader) template(path, text string, vars reflect.Type, captured map[string]bool) {
	if !strings.Contains(text, "{{") {
		return
	}
	t, err := template.New("").Parse(text)
	if err != nil {
		l.fail(path, "the template cannot be read: "+strings.TrimPrefix(err.Error(), "template: :"), "correct it; a value is written {{.User}}")
		return
	}
	var known []string
	for i := range vars.NumField() {
		known = append(known, vars.Field(i).Name)
	}
	for _, t := range t.Templates() {
		fieldsIn(t.Root, func(ident []string) {
			switch name := ident[0]; {
			case !slices.Contains(known, name):
				fix := "write one of ." + strings.Join(known, ", .")
				if near := nearest(name, known); near != "" {
					fix = "write ." + near
				}
				l.fail(path, fmt.Sprintf("the template has no value .%s", name), fix)
			case name == "Captured" && len(ident) > 1 && !captured[ident[1]]:
				l.fail(path, fmt.Sprintf("no request captures %q", ident[1]), fmt.Sprintf("add capture: {%s: $.…} to a request", ident[1]))
			}
		})
	}
}

// fieldsIn visits every .Field of a template's syntax tree, in all branches. Inside range and with the dot is something
// else, so that what stands there is left to the run.
func fieldsIn(n parse.Node, visit func(ident []string)) {
	switch n := n.(type) {
	case *parse.FieldNode:
		visit(n.Ident)
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, m := range n.Nodes {
			fieldsIn(m, visit)
		}
	case *parse.ActionNode:
		fieldsIn(n.Pipe, visit)
	case *parse.IfNode:
		fieldsIn(n.Pipe, visit)
		fieldsIn(n.List, visit)
		fieldsIn(n.ElseList, visit)
	case *parse.RangeNode:
		fieldsIn(n.Pipe, visit)
	case *parse.WithNode:
		fieldsIn(n.Pipe, visit)
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			for _, a := range c.Args {
				fieldsIn(a, visit)
			}
		}
	}
}
