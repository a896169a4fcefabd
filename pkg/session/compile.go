package session

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"text/template"

	"github.com/gobwas/glob"
	"github.com/ohler55/ojg/jp"
)

// ScriptError is a mistake in a script, with its place.
type ScriptError struct {
	Section string // signup, login, tell, …
	Step    int    // counted from 1; 0: the section as a whole
	Field   string // within the step, such as fill.text; may be empty
	Problem string // with its fix
}

func (e *ScriptError) Error() string {
	var b strings.Builder
	b.WriteString(e.Section)
	if e.Step > 0 {
		fmt.Fprintf(&b, " step %d", e.Step)
	}
	if e.Field != "" {
		b.WriteString(", " + e.Field)
	}
	return b.String() + ": " + e.Problem
}

// Compiled is a script that was checked, with its templates.
type Compiled struct {
	sections  []section
	templates map[string]*template.Template
}

// section is one part of a script in its fixed order.
type section struct {
	name   string
	memory bool // the steps are about one memory
	steps  []Step
}

// sections gives the script's sections in a fixed order.
func (s *Script) sections() []section {
	return []section{
		{"signup", false, s.Signup},
		{"login", false, s.Login},
		{"tell", true, s.Tell},
		{"recall", false, s.Recall},
		{"ask", true, s.Ask},
		{"forget", true, s.Forget},
		{"logout", false, s.Logout},
		{"cleanup", false, s.Cleanup},
	}
}

// Levels names the acknowledgement levels of tell, in order.
func (s *Script) Levels() []string {
	var names []string
	for _, st := range s.Tell {
		if st.Acknowledged != nil {
			names = append(names, st.Acknowledged.level())
		}
	}
	return names
}

func (a *Ack) level() string {
	if a.Level == "" {
		return "settled"
	}
	return a.Level
}

// sample is what templates are tried with; each value is recognisable in what comes out.
func sample() Vars {
	return Vars{
		Run: "run", N: 7, User: "amnesia-run-7", Password: "sample-password",
		Memory: "The sample is amnsample.", Token: "amnsample", Question: "What is the sample?", ID: "m1",
	}
}

// CompileScript checks a script and compiles its templates. The error joins one *ScriptError for each mistake.
func CompileScript(s *Script) (*Compiled, error) {
	c := &Compiled{sections: s.sections(), templates: map[string]*template.Template{}}
	k := &checker{c: c}
	vars := sample()
	vars.Captured = captures(c.sections)
	for _, sec := range c.sections {
		k.section = sec.name
		k.step = 0
		k.shape(sec)
		for i := range sec.steps {
			k.step = i + 1
			if err := k.compile(sec.steps[i]); err != nil {
				continue
			}
			st, err := c.render(sec, i, vars)
			if err != nil {
				k.fail("", "%v — fix: use .Run .N .User .Password, .Captured.name, and (in tell, ask and forget) "+
					".Memory .Token .Question .ID", errors.Unwrap(err))
				continue
			}
			k.check(sec.name, st)
		}
	}
	k.sends(s, vars)
	return c, errors.Join(k.errs...)
}

// Each calls fn with every step, its templates filled in with sample values: so that a driver can check what it is
// going to be given. steps are counted from 1.
func (c *Compiled) Each(fn func(section string, step int, s Step)) {
	vars := sample()
	vars.Captured = captures(c.sections)
	for _, sec := range c.sections {
		for i := range sec.steps {
			if st, err := c.render(sec, i, vars); err == nil {
				fn(sec.name, i+1, st)
			}
		}
	}
}

// captures names everything that the request steps capture.
func captures(secs []section) map[string]string {
	m := map[string]string{}
	for _, sec := range secs {
		for _, st := range sec.steps {
			if st.Request != nil {
				for name := range st.Request.Capture {
					m[name] = "captured"
				}
			}
		}
	}
	return m
}

// render gives step i of a section with its templates filled in.
func (c *Compiled) render(sec section, i int, v Vars) (Step, error) {
	// A map and not the struct: so that a template that names a memory where there is none is an error.
	data := map[string]any{"Run": v.Run, "N": v.N, "User": v.User, "Password": v.Password, "Captured": v.Captured}
	if sec.memory {
		data["Memory"], data["Token"], data["Question"], data["ID"] = v.Memory, v.Token, v.Question, v.ID
	}
	out, err := mapStrings(reflect.ValueOf(sec.steps[i]), func(s string) (string, error) {
		if !strings.Contains(s, "{{") {
			return s, nil
		}
		var b strings.Builder
		if err := c.templates[s].Execute(&b, data); err != nil {
			return "", err
		}
		return b.String(), nil
	})
	if err != nil {
		return Step{}, fmt.Errorf("%s step %d: %w", sec.name, i+1, err)
	}
	return out.Interface().(Step), nil
}

// mapStrings copies v with every string in it passed through fn. Keys of maps are kept.
func mapStrings(v reflect.Value, fn func(string) (string, error)) (reflect.Value, error) {
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.String:
		s, err := fn(v.String())
		out.SetString(s)
		return out, err
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return v, nil
		}
		e, err := mapStrings(v.Elem(), fn)
		if err != nil {
			return v, err
		}
		if v.Kind() == reflect.Pointer {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(e)
		} else {
			out.Set(e)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f, err := mapStrings(v.Field(i), fn)
			if err != nil {
				return v, err
			}
			out.Field(i).Set(f)
		}
	case reflect.Map:
		if v.IsNil() {
			return v, nil
		}
		out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
		for it := v.MapRange(); it.Next(); {
			e, err := mapStrings(it.Value(), fn)
			if err != nil {
				return v, err
			}
			out.SetMapIndex(it.Key(), e)
		}
	case reflect.Slice:
		if v.IsNil() {
			return v, nil
		}
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			e, err := mapStrings(v.Index(i), fn)
			if err != nil {
				return v, err
			}
			out.Index(i).Set(e)
		}
	default:
		return v, nil
	}
	return out, nil
}

// checker collects mistakes.
type checker struct {
	c       *Compiled
	section string
	step    int
	errs    []error
}

func (k *checker) fail(field, format string, args ...any) {
	k.errs = append(k.errs, &ScriptError{k.section, k.step, field, fmt.Sprintf(format, args...)})
}

// compile parses every template of a step.
func (k *checker) compile(st Step) error {
	_, err := mapStrings(reflect.ValueOf(st), func(s string) (string, error) {
		if !strings.Contains(s, "{{") || k.c.templates[s] != nil {
			return s, nil
		}
		t, err := template.New("text").Option("missingkey=error").Parse(s)
		if err != nil {
			k.fail("", "the template %q: %v — fix: write {{.Memory}}, {{.User}} …", s, err)
			return s, err
		}
		k.c.templates[s] = t
		return s, nil
	})
	return err
}

// shape checks what a section must hold.
func (k *checker) shape(sec section) {
	var acted, read bool
	var levels []string
	for i, st := range sec.steps {
		k.step = i + 1
		switch {
		case st.Acknowledged != nil:
			if sec.name != "tell" && sec.name != "forget" {
				k.fail("acknowledged", "only tell and forget are acknowledged — fix: write expect")
			}
			if !acted {
				k.fail("acknowledged", "nothing was done yet that could be acknowledged — fix: put the click or request before it")
			}
			if l := st.Acknowledged.level(); slices.Contains(levels, l) {
				k.fail("acknowledged.level", "%q is named twice — fix: give each level a name of its own", l)
			} else {
				levels = append(levels, l)
			}
		case st.Read != nil:
			if sec.name != "recall" && sec.name != "ask" {
				k.fail("read", "only recall and ask read — fix: write expect")
			}
			read = true
		case st.action():
			acted = true
		}
	}
	k.step = 0
	switch sec.name {
	case "tell", "forget":
		if len(levels) == 0 && (sec.name == "tell" || len(sec.steps) > 0) {
			k.fail("", "no step says when it is acknowledged — fix: end it with an acknowledged step")
		}
	case "login":
		// Else the next step races the login, and is sent back to the login page.
		if n := len(sec.steps); n > 0 && (sec.steps[n-1].Click != "" || sec.steps[n-1].Press != nil) {
			k.fail("", "no step says how the user sees that it worked — fix: end it with an expect step, such as {url: \"**/chat\"}")
		}
	case "recall", "ask":
		if !read && len(sec.steps) > 0 {
			k.fail("", "it reads nothing — fix: end it with a read step")
		}
	}
}

// action reports whether the step does something to the app, rather than look.
func (st Step) action() bool {
	return st.Goto != "" || st.Fill != nil || st.Click != "" || st.Press != nil || st.Select != nil || st.Request != nil
}

// sends reports whether the step may send something that the app keeps: such a step is never done twice.
func (st Step) sends() bool {
	if r := st.Request; r != nil {
		return r.JSON != nil || r.Form != nil || (r.Method != "" && r.Method != "GET" && r.Method != "HEAD")
	}
	return st.Click != "" || st.Press != nil
}

// sends checks that tell tells.
func (k *checker) sends(s *Script, vars Vars) {
	if len(s.Tell) == 0 || len(k.errs) > 0 {
		return
	}
	k.section, k.step = "tell", 0
	told := false
	k.c.Each(func(sec string, _ int, st Step) {
		if sec == "tell" && st.action() {
			_, _ = mapStrings(reflect.ValueOf(st), func(s string) (string, error) {
				told = told || strings.Contains(s, vars.Memory)
				return s, nil
			})
		}
	})
	if !told {
		k.fail("", "no step sends the memory — fix: fill a field with {{.Memory}}")
	}
}

// check looks at one rendered step.
func (k *checker) check(sec string, st Step) {
	set := 0
	v := reflect.ValueOf(st)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			set++
		}
	}
	if set != 1 {
		k.fail("", "a step is one action, this one has %d — fix: give each action a step of its own", set)
		return
	}
	need := func(field, value string) {
		if value == "" {
			k.fail(field, "it is empty — fix: set it")
		}
	}
	switch {
	case st.Fill != nil:
		need("fill.selector", st.Fill.Selector)
	case st.Press != nil:
		need("press.selector", st.Press.Selector)
		need("press.key", st.Press.Key)
	case st.Select != nil:
		need("select.selector", st.Select.Selector)
	case st.Expect != nil:
		k.condition("expect", *st.Expect)
	case st.Acknowledged != nil:
		k.condition("acknowledged", st.Acknowledged.Expect)
	case st.Rejected != nil:
		k.condition("rejected", *st.Rejected)
	case st.Read != nil:
		k.read(*st.Read)
	case st.Request != nil:
		k.request(*st.Request)
	}
}

func (k *checker) condition(f string, e Expect) {
	if e.URL == "" && e.Selector == "" && e.Response == "" {
		k.fail(f, "it waits for nothing — fix: set url, selector or response")
	}
	if e.Contains != "" && e.Selector == "" && e.Response == "" {
		k.fail(f+".contains", "the text of what? — fix: set selector or response")
	}
	switch e.State {
	case "":
	case "visible", "hidden", "enabled", "disabled":
		if e.Selector == "" {
			k.fail(f+".state", "the state of what? — fix: set selector")
		}
	default:
		k.fail(f+".state", "%q is no state — fix: visible, hidden, enabled or disabled", e.State)
	}
	if e.JSON != "" && e.Response == "" {
		k.fail(f+".json", "the JSON of what? — fix: set response")
	}
	if e.Timeout < 0 {
		k.fail(f+".timeout", "it is negative — fix: write a time such as 10s")
	}
	for name, g := range map[string]string{".url": e.URL, ".response": e.Response} {
		if _, err := glob.Compile(g, '/'); err != nil {
			k.fail(f+name, "the glob %q: %v — fix: write one such as **/chat", g, err)
		}
	}
	k.path(f+".json", e.JSON)
}

func (k *checker) path(f, path string) {
	if _, err := jp.ParseString(path); err != nil {
		k.fail(f, "the JSONPath %q: %v — fix: write one such as $.messages[*].text", path, err)
	}
}

func (k *checker) read(r Read) {
	if (r.Selector == "") == (r.JSON == "") {
		k.fail("read", "it reads either elements or JSON — fix: set exactly one of selector and json")
	}
	k.path("read.json", r.JSON)
	if m := r.More; m != nil {
		n := 0
		for _, s := range []string{m.Click, m.Scroll, m.JSON} {
			if s != "" {
				n++
			}
		}
		if n != 1 {
			k.fail("read.more", "there is one way to the rest — fix: set exactly one of click, scroll and json")
		}
		if (m.JSON != "") != (r.JSON != "") && n == 1 {
			k.fail("read.more", "elements and JSON do not mix — fix: use json in both, or a selector with click or scroll")
		}
		k.path("read.more.json", m.JSON)
	}
	if r.Ready != nil {
		k.condition("read.ready", *r.Ready)
	}
}

func (k *checker) request(r Request) {
	if r.Path == "" {
		k.fail("request.path", "it is empty — fix: set it")
	}
	if r.JSON != nil && r.Form != nil {
		k.fail("request", "a body is either JSON or a form — fix: set one of json and form")
	}
	if strings.ContainsFunc(r.Method, func(c rune) bool { return c < 'A' || c > 'Z' }) {
		k.fail("request.method", "%q is no method — fix: GET, POST, PUT, PATCH or DELETE", r.Method)
	}
	if e := r.Expect; e != nil {
		if e.Status != 0 && (e.Status < 100 || e.Status > 599) {
			k.fail("request.expect.status", "%d is no status — fix: a number such as 201", e.Status)
		}
		k.path("request.expect.json", e.JSON)
	}
	for name, path := range r.Capture {
		k.path("request.capture."+name, path)
	}
}
