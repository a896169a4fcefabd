package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"amnesia/chaos"
)

// choosy is an engine with the roles that not every engine plays.
type choosy struct {
	*target
	no       error
	recalled []string
	noUndo   error
}

func (e *choosy) Check(context.Context, chaos.Injection) error { return e.no }

func (e *choosy) Undo(context.Context, chaos.Injection) (json.RawMessage, error) {
	return json.RawMessage(`"networks"`), e.noUndo
}

func (e *choosy) Recall(undo json.RawMessage) error {
	e.recalled = append(e.recalled, string(undo))
	return nil
}

// KillSupervised dies, and its supervisor comes when it likes.
func (e *choosy) KillSupervised(ctx context.Context, service string) error {
	return e.do(ctx, "supervised", service, func(s *copyState) { s.up = false })
}

func TestUndoOfTheEngineIsOnRecordAndRecalled(t *testing.T) {
	e, j := &choosy{target: newTarget("app")}, &journal{}
	in, _ := injector(e, j, chaos.Limits{Armed: true})
	if _, err := in.Do(context.Background(), chaos.Injection{ID: 1, Kind: chaos.Kill, Service: "app", Instances: chaos.All}); err != nil {
		t.Fatal(err)
	}
	open := *j.steps[2].Plan
	var undo chaos.Undo
	if err := json.Unmarshal(open.Undo, &undo); err != nil || string(undo.Engine) != `"networks"` || len(undo.Targets) != 1 || undo.Targets[0].Service != "app" {
		t.Fatalf("undo on record: %s, %v", open.Undo, err)
	}
	later := &choosy{target: newTarget("app")}
	in, _ = injector(later, &journal{}, chaos.Limits{})
	if err := in.RevertOpen(context.Background(), []chaos.Injection{open}); err != nil || len(later.recalled) != 1 || later.recalled[0] != `"networks"` {
		t.Errorf("recalled: %q, %v", later.recalled, err)
	}
	// A record that cannot be read is told, and keeps no service down.
	later.state["app"].up = false
	open.Undo = []byte(`{"targets":`)
	if err := in.RevertOpen(context.Background(), []chaos.Injection{open}); err == nil {
		t.Error("a torn record was not told")
	}
	mustWell(t, later.target)
}

func TestWhatTheEngineRefuses(t *testing.T) {
	for name, e := range map[string]*choosy{
		"check": {target: newTarget("app"), no: errors.New("not this one")},
		"undo":  {target: newTarget("app"), noUndo: errors.New("not this one")},
	} {
		in, _ := injector(e, &journal{}, chaos.Limits{Armed: true})
		res, err := in.Do(context.Background(), chaos.Injection{ID: 1, Kind: chaos.Kill, Service: "app", Instances: chaos.All})
		if r, ok := errors.AsType[*chaos.Refusal](err); !ok || res.Outcome != chaos.Refused || r.Reason != chaos.ReasonUnavailable || !strings.Contains(err.Error(), "not this one") {
			t.Errorf("%s: %s, %v", name, res.Outcome, err)
		}
		if len(e.calls) != 0 {
			t.Errorf("%s: and it did %q", name, e.calls)
		}
	}
}

func TestSupervisedKillIsLeftToItsSupervisor(t *testing.T) {
	inj := chaos.Injection{ID: 1, Kind: chaos.Kill, Service: "app", Instances: chaos.All, Supervised: true}
	e := &choosy{target: newTarget("app")}
	in, _ := injector(e, &journal{}, chaos.Limits{Armed: true})
	res, err := in.Do(context.Background(), inj)
	if _, ok := errors.AsType[*chaos.Unhealthy](err); !ok || res.Outcome != chaos.Unrecovered || !res.Reverted {
		t.Errorf("without a supervisor: %+v, %v", res, err)
	}
	if got := strings.Join(e.calls, ", "); got != "supervised app, start app" {
		t.Errorf("calls: %s", got)
	}
	mustWell(t, e.target)

	for name, refused := range map[string]struct {
		e   chaos.Engine
		inj chaos.Injection
	}{
		"an engine without the role": {newTarget("app"), inj},
		"another kind":               {e, chaos.Injection{Kind: chaos.Restart, Service: "app", Instances: chaos.All, Supervised: true}},
	} {
		err := chaos.Faults(refused.e)[refused.inj.Kind].Available(context.Background(), refused.inj)
		if _, ok := errors.AsType[*chaos.Unavailable](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg := chaos.PlanConfig{Rules: []chaos.Rule{{Kind: chaos.Kill, Service: "app", Supervised: true}}}
	if planned, ok := chaos.Plan(1, cfg, 2, chaos.Prior{}); !ok || !planned.Supervised {
		t.Errorf("the plan lost it: %+v", planned)
	}
}
