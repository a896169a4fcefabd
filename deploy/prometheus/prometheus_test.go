// Package prometheus_test holds the rules, the runbook and the dashboard to what the daemon registers and to what a real
// Prometheus makes of them.
package prometheus_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	client "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.yaml.in/yaml/v2"

	"amnesia/chaos"
	"amnesia/deploy/prometheus"
	"amnesia/pkg/metrics"
)

const dashboard = "../grafana/amnesia.json"

// rule is one alert.
type rule struct {
	Alert       string
	Expr        string
	Labels      map[string]string
	Annotations map[string]string
}

func rules(t *testing.T) (all []rule) {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []rule }
	}
	text, err := os.ReadFile("rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no rules")
	}
	return all
}

// tool finds a program of Debian's package prometheus.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		why := "no " + name + " — fix: apt-get install prometheus"
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	return path
}

// TestRules has promtool play what rules_test.yaml says.
func TestRules(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), tool(t, "promtool"), "test", "rules", "rules_test.yaml").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

var todo = regexp.MustCompile("`amnesia (report|why) ")

var parts = regexp.MustCompile(`(?s)^## \w+\n\nMeans: .+\n\nLook at.+\n    .*amnesia .+\n\nUsual causes: .+\n\n(?:Then: .+\n\n)?Silence: .+`)

// TestEveryAlertHelps: it says what happened and what to do, leads to its part of the runbook, and fires in a test.
func TestEveryAlertHelps(t *testing.T) {
	played, err := os.ReadFile("rules_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	known := prometheus.Alerts()
	for _, r := range rules(t) {
		i := slices.Index(known, r.Alert)
		if i < 0 {
			t.Errorf("%s has no part in the runbook", r.Alert)
			continue
		}
		known = slices.Delete(known, i, i+1)
		if text, ok := prometheus.Runbook(r.Alert); !ok || !parts.MatchString(text) || strings.Count(text, "\n## ") > 0 {
			t.Errorf("the runbook's part about %s does not say what it means, what to look at, what causes it and how to silence it:\n%s", r.Alert, text)
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s has the severity %q", r.Alert, s)
		}
		if r.Annotations["summary"] == "" || !todo.MatchString(r.Annotations["description"]) {
			t.Errorf("%s does not say what happened and what to do", r.Alert)
		}
		link := "http://{{ $labels.instance }}/runbook/" + r.Alert
		if strings.HasPrefix(r.Expr, "absent(") { // there is no instance
			link = "{{ externalURL }}/targets"
		}
		if got := r.Annotations["runbook_url"]; got != link {
			t.Errorf("%s leads to %s", r.Alert, got)
		}
		incidents, finding := r.Annotations["incidents_url"]
		if finding != regexp.MustCompile(`amnesia_memory_(losses|defects)_total`).MatchString(r.Expr) || finding && !strings.HasPrefix(incidents, "http://{{ $labels.instance }}/incidents?class=") {
			t.Errorf("%s leads to the incidents at %s", r.Alert, incidents)
		}
		if !strings.Contains(string(played), `{alertname="`+r.Alert+`",alertstate="firing",severity="`+r.Labels["severity"]+`"`) {
			t.Errorf("%s does not fire in rules_test.yaml", r.Alert)
		}
	}
	if len(known) > 0 {
		t.Errorf("the runbook is about %v, which are no alerts", known)
	}
}

var setup = metrics.Setup{
	Build: metrics.BuildInfo{Version: "1.2.3", Revision: "abc"}, Driver: "browser", Services: []string{"app", "redis"}, Views: []string{"page", "redis"},
	Faults: []metrics.Fault{{Kind: chaos.Kill, Service: "redis"}, {Kind: chaos.CrashAll}}, Levels: []string{"shown"}, BrowserRestarts: []string{"age"},
}

// series are those that a daemon has from the start, as Prometheus has them: by name, their labels.
func series(t *testing.T) map[string][]map[string]string {
	t.Helper()
	reg := client.NewRegistry()
	if _, err := metrics.New(reg, setup); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]map[string]string{"up": {{"job": "amnesia", "instance": "a:9464"}}}
	for _, f := range families {
		suffixes := []string{""}
		if f.GetType() == dto.MetricType_HISTOGRAM {
			suffixes = []string{"_bucket", "_count", "_sum"}
		}
		for _, m := range f.Metric {
			for _, suffix := range suffixes {
				labels := map[string]string{"job": "amnesia", "instance": "a:9464"}
				for _, l := range m.Label {
					labels[l.GetName()] = l.GetValue()
				}
				if suffix == "_bucket" {
					labels["le"] = "1"
				}
				all[f.GetName()+suffix] = append(all[f.GetName()+suffix], labels)
			}
		}
	}
	return all
}

var (
	selector = regexp.MustCompile(`\b(amnesia_\w+|up)\b(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	grouping = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	shown    = regexp.MustCompile(`\{\{\s*(?:with\s+)?(?:\$labels\.)?(\w+)(?:\s*\|\s*urlquery)?\s*\}\}`)
)

// check holds what an expression selects and groups by, and the labels that are shown of what comes of it, to what there is.
func check(t *testing.T, where, expr string, texts ...string) {
	t.Helper()
	there := series(t)
	labels, grouped := map[string]bool{}, map[string]bool{} // of what is selected; by which it is grouped
	selected := selector.FindAllStringSubmatch(expr, -1)
	if len(selected) == 0 {
		t.Errorf("%s: %s selects nothing of ours", where, expr)
	}
	for _, s := range selected {
		all, ok := there[s[1]]
		if !ok {
			t.Errorf("%s: the daemon has no metric %s", where, s[1])
			continue
		}
		for name := range all[0] {
			labels[name] = true
		}
		matchers := matcher.FindAllStringSubmatch(s[2], -1)
		if !slices.ContainsFunc(all, func(labels map[string]string) bool { return matches(labels, matchers) }) {
			t.Errorf("%s: no series of a daemon is %s", where, s[0])
		}
	}
	groups := grouping.FindAllStringSubmatch(expr, -1)
	for _, g := range groups {
		for _, name := range strings.Split(g[1], ",") {
			name = strings.TrimSpace(name)
			if grouped[name] = true; !labels[name] {
				t.Errorf("%s: nothing in %s has the label %s", where, expr, name)
			}
		}
	}
	if len(groups) == 0 {
		grouped = labels
	}
	for _, text := range texts {
		for _, l := range shown.FindAllStringSubmatch(text, -1) {
			if l[1] != "externalURL" && l[1] != "end" && !grouped[l[1]] {
				t.Errorf("%s: it shows the label %s, which what comes of %s does not have", where, l[1], expr)
			}
		}
	}
}

// matches reports whether a series is one that is selected. A dashboard's variable is anything.
func matches(labels map[string]string, matchers [][]string) bool {
	for _, m := range matchers {
		value, ok := labels[m[1]]
		if !ok {
			return false
		}
		if strings.Contains(m[3], "$") {
			continue
		}
		pattern := m[3]
		if m[2] == "=" || m[2] == "!=" {
			pattern = regexp.QuoteMeta(pattern)
		}
		if regexp.MustCompile("^(?:"+pattern+")$").MatchString(value) == strings.HasPrefix(m[2], "!") {
			return false
		}
	}
	return true
}

// TestRulesFitTheDaemon: a rule that names what no daemon has would never fire.
func TestRulesFitTheDaemon(t *testing.T) {
	for _, r := range rules(t) {
		check(t, r.Alert, r.Expr, r.Annotations["summary"], r.Annotations["description"], r.Annotations["incidents_url"], r.Annotations["runbook_url"])
	}
}

// query is one of the dashboard's, and what it shows of it.
type query struct{ where, expr, legend string }

func queries(t *testing.T) (all []query) {
	t.Helper()
	text, err := os.ReadFile(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
		Annotations struct {
			List []struct{ Name, Expr, TitleFormat, TextFormat, TagKeys string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, query{p.Title, target.Expr, target.LegendFormat})
		}
	}
	for _, a := range d.Annotations.List {
		tags := "{{" + strings.ReplaceAll(a.TagKeys, ",", "}}{{") + "}}"
		all = append(all, query{"annotation " + a.Name, a.Expr, a.TitleFormat + a.TextFormat + tags})
	}
	variable := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)
	for _, v := range d.Templating.List {
		if m := variable.FindStringSubmatch(v.Definition); m != nil {
			all = append(all, query{"variable " + v.Name, m[1], "{{" + m[2] + "}}"})
		}
	}
	return all
}

// TestDashboardFitsTheDaemon: and it shows every metric that there is.
func TestDashboardFitsTheDaemon(t *testing.T) {
	var exprs strings.Builder
	for _, q := range queries(t) {
		check(t, q.where, q.expr, q.legend)
		exprs.WriteString(q.expr + "\n")
	}
	histogram := regexp.MustCompile(`_(bucket|count|sum)$`)
	for name := range series(t) {
		if name = histogram.ReplaceAllString(name, ""); name != "up" && !strings.Contains(exprs.String(), name) {
			t.Errorf("%s is on no panel", name)
		}
	}
}
