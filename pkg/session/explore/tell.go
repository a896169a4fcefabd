package explore

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

// tellings is how many memories are told: two, so that what they have in common can be told from what is of one.
const tellings = 2

// tell tells two memories, and writes the section from what the page did.
func (e *explorer) tell(ctx context.Context) error {
	els, _, err := e.elements(ctx, written)
	if err != nil {
		return err
	}
	box, send := messageBox(els)
	if box == nil {
		return &gap{"tell", "the field for messages has gone"}
	}
	steps := []session.Step{{Fill: &session.Fill{Selector: box.Selector, Text: "{{.Memory}}"}}}
	if send != nil {
		steps = append(steps, session.Step{Click: send.Selector})
	} else {
		steps = append(steps, session.Step{Press: &session.Press{Selector: box.Selector, Key: "Enter"}})
	}
	var traffic []session.Exchange
	var texts, marks []string
	for k := range tellings {
		m := e.found.Teller.Memory(e.found.User, k)
		if err := e.do(ctx, steps, m); err != nil {
			if session.IsRig(err) {
				return err
			}
			return &gap{"tell", "a message could not be sent: " + err.Error()}
		}
		sent := time.Now()
		shown, heard, err := e.answered(ctx, m)
		if err != nil {
			return err
		}
		e.slowest = max(e.slowest, time.Since(sent))
		if !shown && !slices.ContainsFunc(heard, taken) {
			return &gap{"tell", "a message was sent by " + describe(steps) + ", and nothing came of it"}
		}
		texts, marks, traffic = append(texts, m.Text), append(marks, m.Token), heard
		e.found.Told, e.found.ToldAt = append(e.found.Told, m), time.Now()
	}
	places, err := e.places(ctx, texts, marks)
	if err != nil {
		return err
	}
	acks := e.acknowledgements(places, traffic)
	if len(acks) == 0 {
		return &gap{"tell", "a message was sent by " + describe(steps) + ", and nothing shows that it was taken"}
	}
	e.found.Script.Tell = append(steps, acks...)
	return nil
}

func (e *explorer) places(ctx context.Context, texts, marks []string) ([]session.Place, error) {
	found, err := e.page.Places(ctx, texts, marks)
	return slices.DeleteFunc(found, func(p session.Place) bool { return template(p.Selector) }), err
}

func describe(steps []session.Step) string {
	last := steps[len(steps)-1]
	if last.Click != "" {
		return "a click on " + last.Click
	}
	return "Enter in " + last.Press.Selector
}

// answered waits until the page has done all that it does with a message.
func (e *explorer) answered(ctx context.Context, m memory.Memory) (shown bool, heard []session.Exchange, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Answer)
	defer cancel()
	const still = 700 * time.Millisecond
	patience := time.Now().Add(e.cfg.Patience)
	var since time.Time
	places, requests := -1, -1
	for {
		found, err := e.page.Places(ctx, []string{m.Text}, []string{m.Token})
		if session.IsRig(err) {
			return shown, heard, err
		}
		heard = e.page.Traffic()
		busy := slices.ContainsFunc(heard, func(x session.Exchange) bool {
			return !x.Ended && x.Status == 0 || !x.Ended && x.Method != http.MethodGet
		})
		shown = len(found) > 0
		if err != nil || busy || len(found) != places || len(heard) != requests {
			places, requests, since = len(found), len(heard), time.Now()
		}
		did := shown || slices.ContainsFunc(heard, taken)
		if time.Since(since) >= still && (did || time.Now().After(patience)) || !sleep(ctx, 100*time.Millisecond) {
			return shown, heard, nil
		}
	}
}

// taken reports whether a request brought something to the app, and was not refused.
func taken(x session.Exchange) bool {
	return x.Ended && (x.Kind == "frame" || x.Method != http.MethodGet && x.Method != http.MethodHead && x.Method != http.MethodOptions && x.Status < 400)
}

// patience is how long an acknowledgement is to be waited for: several times as long as it took, where that is longer than
// the usual; 0: the usual.
func (e *explorer) patience() time.Duration {
	const usual, times = 10 * time.Second, 4
	if e.slowest*times <= usual {
		return 0
	}
	return (e.slowest * times).Truncate(10*time.Second) + 10*time.Second
}

// acknowledgements reads off what the page did how a user sees that a message was taken.
func (e *explorer) acknowledgements(places []session.Place, traffic []session.Exchange) (acks []session.Step) {
	own := slices.IndexFunc(places, func(p session.Place) bool { return p.Exact })
	if own < 0 && len(places) > 0 {
		own = 0
	}
	if own >= 0 {
		e.own = places[own].Selector
	}
	home, _ := url.Parse(e.cfg.URL)
	asked := slices.IndexFunc(traffic, func(x session.Exchange) bool {
		u, err := url.Parse(x.URL)
		return err == nil && home != nil && u.Hostname() == home.Hostname() && taken(x) && x.Kind != "frame"
	})
	frame := slices.IndexFunc(traffic, func(x session.Exchange) bool { return x.Kind == "frame" })
	shown := func(p session.Place) {
		acks = append(acks, session.Step{Acknowledged: &session.Ack{Level: "shown", Expect: session.Expect{Selector: p.Selector, Contains: "{{.Token}}", Timeout: e.patience()}}})
	}
	settled := func(x session.Exchange) {
		acks = append(acks, session.Step{Acknowledged: &session.Ack{Level: "settled", Expect: session.Expect{Response: pattern(x.URL), Timeout: e.patience()}}})
	}
	if own >= 0 && own+1 < len(places) {
		e.found.Answer = places[own+1].Selector
		shown(places[own+1])
	}
	switch {
	case asked >= 0:
		settled(traffic[asked])
	case len(acks) > 0:
	case frame >= 0:
		settled(traffic[frame])
		e.found.Notes["tell"] = "the first frame that comes over the WebSocket counts as the answer: name what only a saved message shows, if there is more"
	case own >= 0:
		shown(places[own])
		e.found.Notes["tell"] = "that the message is shown is all that was seen, which a page may do before anything is saved: name a better sign, if there is one"
	}
	return acks
}

// again comes back with a new session and looks whether the page shows what was told.
func (e *explorer) again(ctx context.Context) (err error) {
	if e.open {
		return &gap{"recall", "without a login, nobody comes back to what they told"}
	}
	shut, err := e.surface(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shut()) }()
	login := e.found.Script.Login
	if err := e.do(ctx, login[:len(login)-1], memory.Memory{}); err != nil {
		return &gap{"recall", "a second login failed: " + err.Error()}
	}
	if _, _, err := e.elements(ctx, written); err != nil {
		return err
	}
	var texts, marks []string
	for _, m := range e.found.Told {
		texts, marks = append(texts, m.Text), append(marks, m.Token)
	}
	at := e.where()
	if !stable(at) {
		at = relative(e.cfg.URL, e.cfg.URL)
	}
	if err := e.act(ctx, session.Step{Goto: at}, memory.Memory{}); err != nil {
		return &gap{"recall", err.Error()}
	}
	deadline := time.Now().Add(e.cfg.Patience)
	for {
		places, err := e.places(ctx, texts, marks)
		if session.IsRig(err) {
			return err
		}
		if i := slices.IndexFunc(places, func(p session.Place) bool { return p.Selector == e.own }); i >= 0 {
			places[0] = places[i]
		}
		if len(places) > 0 {
			e.found.Script.Recall = []session.Step{{Goto: at}, {Read: &session.Read{Selector: places[0].Selector}}}
			return nil
		}
		if time.Now().After(deadline) || !sleep(ctx, 100*time.Millisecond) {
			return &gap{"recall", "after a new login, " + at + " does not show what was told"}
		}
	}
}
