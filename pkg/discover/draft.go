package discover

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"amnesia/chaos"
	"amnesia/pkg/session"
	"amnesia/pkg/terminal"
)

// Draft is a configuration under way: what was found out of a stack, and what was not.
type Draft struct {
	Project    Project
	URL        string
	App        string // the service that shows pages; empty: not known
	Parts      []Part
	Accounts   string // template of the names; empty: the usual one
	PerAccount int    // how many memories one account may be told; 0: the usual
	Script     session.Script
	Answer     string            // selector of the app's answers; empty: not known
	Notes      map[string]string // on sections of the script
	Gaps       map[string]string // why a section is missing
	Looks      []Look
	Listen     string // where the daemon is to listen; empty: at the usual address
}

// Look is a view of a configuration.
type Look struct {
	Name     string
	Service  string
	Settings []Setting // of the view
	Contract []Setting
	Note     string
	Export   string // the command that sets the variable that it names
	Gap      string // why it cannot be used as it is: it is written as a comment
	Absent   bool   // nothing that was told is there, which is its gap, and nothing that has to be filled in
}

// Setting is a key with its value, written as YAML has it.
type Setting struct{ Key, Value string }

// Set makes a setting of a text.
func Set(key, text string) Setting { return Setting{key, Scalar(text)} }

// plain is a text that YAML takes as it is, and as a text, within braces too.
var plain = regexp.MustCompile(`^([a-z]+://[A-Za-z0-9_.:/-]*[A-Za-z0-9_/-]|[A-Za-z/.][A-Za-z0-9_./-]*)$`)

// Scalar writes a text as YAML has it: quoted, unless it is plain.
func Scalar(text string) string {
	words := []string{"true", "false", "null", "yes", "no", "on", "off", "~", "."}
	if plain.MatchString(text) && !slices.Contains(words, strings.ToLower(text)) {
		return text
	}
	// A JSON text is a double-quoted one of YAML, but that YAML has escapes of its own for some signs.
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string always can
	return strings.TrimSuffix(b.String(), "\n")
}

// flow writes settings in braces.
func flow(settings []Setting) string {
	var parts []string
	for _, s := range settings {
		parts = append(parts, s.Key+": "+s.Value)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// hurtable reports whether a part stands in the configuration.
func (p Part) hurtable() bool { return p.Unfit == "" && p.At != "" }

// Unlabelled gives the services of the draft whose containers lack the label without which nothing is done to them.
func (d *Draft) Unlabelled() (names []string) {
	for _, p := range d.Parts {
		if p.hurtable() && !p.Container.Target {
			names = append(names, p.Service)
		}
	}
	return names
}

// Keep leaves out what is no part of the app: where some containers are labelled as what may be hurt, those that are not,
// unless memories were seen in them or they are the app.
func (d *Draft) Keep() {
	labelled := slices.ContainsFunc(d.Parts, func(p Part) bool { return p.Container.Target })
	for i, p := range d.Parts {
		if p.Unfit == "" && labelled && !p.Container.Target && p.Service != d.App && !d.holds(p.Service) {
			d.Parts[i].Unfit = "it is not labelled amnesia.target=true, as others are"
		}
	}
}

// holds reports whether a view reads of a service.
func (d *Draft) holds(service string) bool {
	return slices.ContainsFunc(d.Looks, func(l Look) bool { return l.Gap == "" && l.Service == service })
}

// YAML writes the configuration. What could not be found out stands there as a comment that says so.
func (d *Draft) YAML() []byte {
	w := &writer{}
	w.line("# Amnesia on the compose project %s, as `amnesia init` found it. Read it through; \"fill in\" marks what it could not find.", d.Project.Name)
	w.line("version: 1")
	w.line("armed: false    # faults are only announced; true, or amnesia run --armed, injects them")
	w.line("")
	d.target(w)
	w.line("")
	d.sessions(w)
	w.line("")
	d.views(w)
	w.line("")
	d.faults(w)
	w.line("")
	w.line("# The least time between two faults, and the most in an hour. More time where people use the target.")
	w.line("limits: {every: 5s, per_hour: 600, recovery: 60s}")
	w.line("ledger: {path: amnesia.db}")
	if d.Listen != "" {
		w.remark("", "The usual port is taken.")
		w.line("web: {listen: %s}", Scalar(d.Listen))
	}
	return []byte(w.b.String())
}

// writer writes lines of YAML.
type writer struct{ b strings.Builder }

func (w *writer) line(form string, args ...any) {
	text := form
	if len(args) > 0 {
		text = fmt.Sprintf(form, args...)
	}
	w.b.WriteString(strings.TrimRight(text, " ") + "\n")
}

// remark writes a comment. What a target said in it begins no line of the file, and does nothing to a terminal.
func (w *writer) remark(indent, text string) {
	w.line("%s", indent+"# "+strings.Join(strings.Fields(terminal.Text(text)), " "))
}

func (d *Draft) target(w *writer) {
	w.line("target:")
	w.line("  url: %s", Scalar(d.URL))
	w.line("  engine: docker")
	w.line("  project: %s", Scalar(d.Project.Name))
	w.line("  services:")
	width := 0
	for _, p := range d.Parts {
		if p.hurtable() {
			width = max(width, len(p.Service))
		}
	}
	for _, p := range d.Parts {
		if !p.hurtable() {
			continue
		}
		about := string(p.Kind)
		if p.Service == d.App {
			about = "what people use"
		}
		if mounts := p.mounts(); mounts != "" {
			about = strings.TrimPrefix(about+"; "+mounts, "; ")
		}
		if about != "" {
			w.remark("    ", about)
		}
		w.line("    %-*s {health: %s}", width+1, p.Service+":", Scalar(p.Answer.Health))
	}
	for _, p := range d.Parts {
		if !p.hurtable() {
			w.remark("    ", p.Service+" is left out: "+p.Unfit)
		}
	}
}

// mounts says what a container keeps outside of itself.
func (p Part) mounts() string {
	var out []string
	for _, m := range p.Container.Mounts {
		kind := string(m.Type)
		switch {
		case m.Anonymous:
			kind = "anonymous volume, which a new container does not get"
		case m.Type == Volume && m.Ephemeral:
			kind = "volume, labelled to be emptied"
		case m.Type == Bind && m.ReadOnly:
			continue
		}
		out = append(out, m.At+" ("+kind+")")
	}
	return strings.Join(out, ", ")
}

func (d *Draft) sessions(w *writer) {
	w.line("sessions:")
	w.line("  driver: browser")
	w.line("  users: 4")
	w.line("  memories: 5")
	if d.Accounts != "" {
		w.line("  accounts: %s", Scalar(d.Accounts))
	}
	if d.PerAccount > 0 {
		w.remark("  ", "So many were told to one account, and all of them seen again. More may need more: in recall, for older messages.")
		w.line("  memories_per_account: %d", d.PerAccount)
	}
	w.line("  script:")
	for _, s := range []struct {
		name  string
		steps []session.Step
	}{
		{"signup", d.Script.Signup}, {"login", d.Script.Login}, {"tell", d.Script.Tell}, {"recall", d.Script.Recall}, {"logout", d.Script.Logout},
	} {
		if note := d.Notes[s.name]; note != "" {
			w.remark("    ", s.name+": "+note)
		}
		switch why := strings.TrimSpace(d.Gaps[s.name]); {
		case why != "" && len(s.steps) > 0:
			w.remark("    ", fmt.Sprintf("%s is not right yet (%s): correct it", s.name, why))
		case why != "":
			w.remark("    ", fmt.Sprintf("could not find %s (%s): fill in", s.name, why))
			d.example(w, s.name)
		}
		if len(s.steps) > 0 {
			w.line("    %s:", s.name)
			for _, st := range s.steps {
				w.line("      - %s", step(st))
			}
		}
		if s.name == "tell" && len(s.steps) > 0 {
			w.remark("      ", "What a user sees who is refused could not be seen. Left out, a refusal counts as an unknown outcome, of which no loss is told:")
			w.line(`      # - rejected: {selector: "[role=alert]"}`)
		}
		if s.name == "recall" && len(s.steps) > 0 && d.Answer != "" {
			d.ask(w)
		}
	}
}

// example shows the form of a section that is to be filled in.
func (d *Draft) example(w *writer, name string) {
	for _, line := range map[string][]string{
		"login":  {"login:", "  - goto: /login", `  - fill: {selector: "#username", text: "{{.User}}"}`, `  - fill: {selector: "#password", text: "{{.Password}}"}`, `  - click: button[type=submit]`},
		"tell":   {"tell:", `  - fill: {selector: "#message", text: "{{.Memory}}"}`, `  - click: "#send"`, `  - acknowledged: {level: settled, response: "**/api/chat"}`},
		"recall": {"recall:", "  - goto: /chat", `  - read: {selector: ".message"}`},
	}[name] {
		w.line("    # %s", line)
	}
}

// ask writes how a question would be asked: it is not, since each is one to a model.
func (d *Draft) ask(w *writer) {
	w.remark("    ", "To ask the assistant too (the view answer below; each memory is one question to it in every cycle):")
	w.line("    # ask:")
	w.line("    #   - %s", step(d.Script.Recall[0]))
	for _, st := range d.Script.Tell {
		switch {
		case st.Fill != nil:
			w.line("    #   - %s", step(session.Step{Fill: &session.Fill{Selector: st.Fill.Selector, Text: "{{.Question}}"}}))
		case st.Click != "", st.Press != nil:
			w.line("    #   - %s", step(st))
		}
	}
	w.line("    #   - read: %s", flow([]Setting{Set("selector", d.Answer), Set("role", "assistant"), {"last", "true"}}))
}

// step writes one step of a script.
func step(st session.Step) string {
	expect := func(e session.Expect) (out []Setting) {
		for _, s := range []Setting{{"url", e.URL}, {"selector", e.Selector}, {"contains", e.Contains}, {"state", e.State}, {"response", e.Response}} {
			if s.Value != "" {
				out = append(out, Set(s.Key, s.Value))
			}
		}
		if e.Timeout > 0 {
			out = append(out, Duration("timeout", e.Timeout))
		}
		return out
	}
	switch {
	case st.Goto != "":
		return "goto: " + Scalar(st.Goto)
	case st.Click != "":
		return "click: " + Scalar(st.Click)
	case st.Fill != nil:
		return "fill: " + flow([]Setting{Set("selector", st.Fill.Selector), Set("text", st.Fill.Text)})
	case st.Press != nil:
		return "press: " + flow([]Setting{Set("selector", st.Press.Selector), Set("key", st.Press.Key)})
	case st.Expect != nil:
		return "expect: " + flow(expect(*st.Expect))
	case st.Acknowledged != nil:
		return "acknowledged: " + flow(append([]Setting{Set("level", st.Acknowledged.Level)}, expect(st.Acknowledged.Expect)...))
	case st.Read != nil:
		return "read: " + flow([]Setting{Set("selector", st.Read.Selector)})
	}
	panic(fmt.Sprintf("discover: a draft has no such step: %+v", st))
}

func (d *Draft) views(w *writer) {
	if !slices.ContainsFunc(d.Looks, func(l Look) bool { return l.Gap == "" }) {
		w.remark("", "No place was found where a memory can be looked for: fill in at least one.")
		w.line("# views:")
	} else {
		w.line("views:")
	}
	for _, l := range d.Looks {
		lead := "  "
		switch {
		case l.Absent:
			w.remark("  ", fmt.Sprintf("%s is left out: %s. If memories do come there, fill in", l.Name, l.Gap))
			lead = "  # "
		case l.Gap != "":
			w.remark("  ", fmt.Sprintf("could not find %s (%s): fill in", l.Name, l.Gap))
			lead = "  # "
		}
		if l.Note != "" {
			w.remark("  ", l.Name+": "+l.Note)
		}
		if l.Export != "" {
			w.remark("  ", l.Export)
		}
		all := slices.Clone(l.Settings)
		if l.Service != "" && l.Service != l.serviceByName() {
			all = append([]Setting{Set("service", l.Service)}, all...)
		}
		if len(l.Contract) > 0 {
			all = append(all, Setting{"contract", flow(l.Contract)})
		}
		if len(all) == 0 {
			w.line("%s%s: {}", lead, l.Name)
			continue
		}
		w.line("%s%s:", lead, l.Name)
		for _, s := range all {
			w.line("%s  %s: %s", lead, s.Key, s.Value)
		}
	}
	if d.Answer != "" && len(d.Script.Recall) > 0 {
		service := ""
		if d.App != "app" && d.App != "" {
			service = "service: " + d.App + ", "
		}
		w.line("  # answer: {%sattempts: 3}    # needs ask, above", service)
	}
}

// serviceByName is the service that a view is of where it does not say.
func (l Look) serviceByName() string {
	if l.Name == "page" {
		return "app"
	}
	return l.Name
}

func (d *Draft) faults(w *writer) {
	w.remark("", "Drawn by weight; those of services in which memories were seen come oftener.")
	w.line("faults:")
	any := false
	for _, p := range d.Parts {
		if !p.hurtable() {
			continue
		}
		any = true
		weight := ""
		if p.Kind != "" && d.holds(p.Service) {
			weight = ", weight: 4"
		}
		when := "after: acknowledged, delay: 0ms..500ms"
		grace := ""
		if g := p.grace(); g > 0 {
			grace = ", grace: " + duration(g)
		}
		w.line("  - {kind: %s, service: %s%s, %s}", chaos.Kill, p.Service, weight, when)
		w.line("  - {kind: %s, service: %s, %s%s}", chaos.Restart, p.Service, when, grace)
		if p.Kind != "" {
			w.line("  - {kind: %s, service: %s, after: told, delay: 0ms..200ms, hold: 500ms..2s}", chaos.Pause, p.Service)
		}
	}
	if !any {
		w.line("  []")
	}
	w.remark("  ", "Harder ones, where the target is there for it: a new container (whose own layer is gone), all at once, and empty volumes.")
	for _, p := range d.Parts {
		if p.hurtable() && p.Kind != "" {
			w.line("  # - {kind: %s, service: %s, after: acknowledged}", chaos.Recreate, p.Service)
		}
	}
	w.line("  # - {kind: %s, after: acknowledged}", chaos.CrashAll)
	for _, p := range d.Parts {
		for _, m := range p.Container.Mounts {
			switch wipe := fmt.Sprintf("- {kind: %s, service: %s, volume: %s, after: acknowledged}", chaos.Wipe, p.Service, Scalar(m.At)); {
			case !p.hurtable() || m.ReadOnly || m.Type == Bind:
			case m.Type == Tmpfs || m.Anonymous || m.Ephemeral:
				w.line("  # %s", wipe)
			default:
				w.line("  # %s    # only if the volume gets the label amnesia.ephemeral=true", wipe)
			}
		}
	}
}

// duration writes a time as the configuration has it.
func duration(d time.Duration) string {
	if d%time.Second == 0 && d < time.Minute || d == 0 {
		return fmt.Sprintf("%ds", d/time.Second)
	}
	if d%time.Hour == 0 {
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	if d%time.Minute == 0 {
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}

// Duration is the setting of a time.
func Duration(key string, d time.Duration) Setting { return Setting{key, duration(d)} }

// Override writes the compose file that labels services as what may be hurt.
func Override(services []string) []byte {
	w := &writer{}
	w.line("# Lets Amnesia hurt these services. Take out those that it must not.")
	w.line("services:")
	for _, s := range services {
		w.line("  %s:", Scalar(s))
		w.line(`    labels: {amnesia.target: "true"}`)
	}
	return []byte(w.b.String())
}

// Compose gives the words of the command that makes the services' containers anew with a further file. compose are those
// that Compose is called by.
func (p Project) Compose(compose []string, file string, services []string) []string {
	words := append(slices.Clone(compose), "--project-name", p.Name)
	if p.Dir != "" {
		words = append(words, "--project-directory", p.Dir)
	}
	for _, f := range append(slices.Clone(p.Files), file) {
		words = append(words, "--file", f)
	}
	return append(append(words, "up", "--detach", "--wait", "--no-deps"), services...)
}

// Roundest guesses a time that somebody has set from a range that it lies in: the one that is written shortest.
func Roundest(least, most time.Duration) time.Duration {
	for _, unit := range []time.Duration{24 * time.Hour, time.Hour, 30 * time.Minute, 10 * time.Minute, 5 * time.Minute, time.Minute, 30 * time.Second, 10 * time.Second, 5 * time.Second, time.Second} {
		if d := most.Truncate(unit); d >= least && d > 0 {
			return d
		}
	}
	return most
}
