package sessiontest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

func tellsPayloads(t *testing.T, k *kit) {
	r := k.rig(t, Script())
	var want []string
	for i, text := range []string{
		"The code of my locker is $.",
		"我的储物柜密码是 $，请记住。",
		"My team 👩‍👩‍👧‍👦🏳️‍🌈 meets at $ 🎉",
		`It is "$", isn't it? <b>bold</b> &amp; <script>alert(1)</script>'); DROP TABLE users;--`,
		"The first line\n\n  the third is $\nthe last",
		"Long: $ " + strings.Repeat("and so on, ", 200) + "the end",
	} {
		m := note(i+1, text)
		rc, err := r.Tell(r.ctx, m)
		outcome(t, rc, err, memory.Acknowledged, "")
		if len(rc.Levels) != 2 || rc.Levels[0].Name != "shown" || rc.Levels[1].Name != "settled" {
			t.Errorf("levels %+v", rc.Levels)
		}
		want = append(want, m.Text)
	}
	got := users(r.Messages(r.user.Name))
	if !slices.EqualFunc(got, want, session.Same) {
		t.Errorf("the server got\n%q\nwant\n%q", got, want)
	}
	read, err := r.Recall(r.ctx)
	must(t, err)
	var texts []string
	for _, u := range read.Utterances {
		texts = append(texts, u.Text)
	}
	slices.Sort(texts)
	slices.Sort(want)
	if !slices.EqualFunc(texts, want, session.Same) {
		t.Errorf("recalled\n%q\nwant\n%q", texts, want)
	}
}

func pointsInOrder(t *testing.T, k *kit) {
	r := k.rig(t, Script())
	for i := range 2 {
		rc, err := r.Tell(r.ctx, note(i+1, "It is $."))
		outcome(t, rc, err, memory.Acknowledged, "")
	}
	tell := []session.Point{session.PointIdle, session.PointTold, session.PointAcknowledged}
	want := slices.Concat([]session.Point{session.PointLoggedIn}, tell, tell)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.points, want) {
		t.Errorf("points %v, want %v", r.points, want)
	}
}

func boundsLevels(t *testing.T, k *kit) {
	r := k.rig(t, Script())
	r.Chat(Slow)
	begin := r.clock.Now()
	rc, err := r.Tell(r.ctx, note(1, "It is $."))
	outcome(t, rc, err, memory.Acknowledged, "")
	if len(rc.Levels) != 2 {
		t.Fatalf("levels %+v", rc.Levels)
	}
	for _, l := range rc.Levels {
		if l.NotSeen.Before(begin) || !l.NotSeen.Before(l.Seen) {
			t.Errorf("%s: not seen %v, seen %v, begun %v", l.Name, l.NotSeen, l.Seen, begin)
		}
	}
	// The server's handler returns about when the response ends; the user cannot have seen the end before.
	if settled := rc.Levels[1]; settled.Seen.Sub(begin) < linger {
		t.Errorf("settled %v after the tell began, but the response lasted %v", settled.Seen.Sub(begin), linger)
	}
	if k.f.JavaScript && rc.Levels[1].Seen.Sub(rc.Levels[0].Seen) < linger/3 {
		t.Errorf("shown %v, settled %v: the answer stood there for %v before the response ended", rc.Levels[0], rc.Levels[1], linger)
	}
}

func brokenStream(t *testing.T, k *kit) {
	r := k.rig(t, Script(), steps(2*time.Second))
	r.Chat(Cut)
	rc, err := r.Tell(r.ctx, note(1, "It is $."))
	if rc.Outcome != memory.Unknown || err == nil {
		t.Errorf("got %+v, %v", rc, err)
	}
	for _, l := range rc.Levels {
		if l.Name == "settled" {
			t.Errorf("a broken stream settled: %+v", rc)
		}
	}
	r.Chat(Normal)
	rc, err = r.Tell(r.ctx, note(2, "It is $."))
	outcome(t, rc, err, memory.Acknowledged, "")
}

func errorShown(t *testing.T, k *kit) {
	r := k.rig(t, Script())
	r.Chat(Fail503)
	rc, err := r.Tell(r.ctx, note(1, "It is $."))
	outcome(t, rc, err, memory.Rejected, session.CauseRejected)
	if !strings.Contains(rc.Detail, "The memory is away") {
		t.Errorf("detail %q", rc.Detail)
	}
	r.Chat(Normal)
	rc, err = r.Tell(r.ctx, note(2, "It is $."))
	outcome(t, rc, err, memory.Acknowledged, "")
}

func errorMute(t *testing.T, k *kit) {
	r := k.rig(t, Script(), steps(2*time.Second))
	r.Chat(Mute503)
	rc, err := r.Tell(r.ctx, note(1, "It is $."))
	outcome(t, rc, err, memory.Unknown, session.CauseResponse)
}

func throttled(t *testing.T, k *kit) {
	r := k.rig(t, Script(), func(_ *session.Script, o *session.Options) { o.MaxBackoff = 100 * time.Millisecond })
	r.Chat(Busy429)
	rc, err := r.Tell(r.ctx, note(1, "It is $."))
	outcome(t, rc, err, memory.Rejected, session.CauseThrottled)
	r.Chat(Normal)
	begin := time.Now()
	rc, err = r.Tell(r.ctx, note(2, "It is $."))
	outcome(t, rc, err, memory.Acknowledged, "")
	if d := time.Since(begin); d < 50*time.Millisecond {
		t.Errorf("the next tell did not back off: %v", d)
	}
}

func hangs(t *testing.T, k *kit) {
	r := k.rig(t, Script(), steps(short))
	r.Chat(Hang)
	rc, err := r.Tell(r.ctx, note(1, "It is $."))
	outcome(t, rc, err, memory.Unknown, session.CauseTimeout)
	target(t, err)
	if r.Posts() != 1 {
		t.Errorf("%d messages reached the server", r.Posts())
	}
}

func aborted(t *testing.T, k *kit) {
	r := k.rig(t, Script())
	r.Chat(Hang)
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	go func() {
		<-r.arrived
		cancel()
	}()
	rc, err := r.Tell(ctx, note(1, "It is $."))
	outcome(t, rc, err, memory.Unknown, session.CauseAborted)
}

func refused(t *testing.T, k *kit) {
	r := k.rig(t, Script(), steps(2*time.Second))
	r.CloseClientConnections()
	must(t, r.Listener.Close())
	rc, err := r.Tell(r.ctx, note(1, "It is $."))
	if rc.Cause != session.CauseInterrupted { // a connection that died a moment ago may still look alive
		outcome(t, rc, err, memory.Unknown, session.CauseRefused)
	}
	target(t, err)
	rc, err = r.Tell(r.ctx, note(2, "It is $."))
	outcome(t, rc, err, memory.Unknown, session.CauseRefused)
	tr, err := r.Recall(r.ctx)
	target(t, err)
	if tr.Complete {
		t.Error("a recall from a dead target is complete")
	}
}

func atMostOnce(t *testing.T, k *kit) {
	r := k.rig(t, Script(), steps(2*time.Second))
	rc, err := r.Tell(r.ctx, note(1, "It is $."))
	outcome(t, rc, err, memory.Acknowledged, "")
	r.Chat(Drop) // on a connection that was used before, after which a client may be tempted to try again
	rc, err = r.Tell(r.ctx, note(2, "It is $."))
	outcome(t, rc, err, memory.Unknown, session.CauseInterrupted)
	most := 2
	if k.f.JavaScript {
		most = 3 // Chromium itself sends again on a connection that was used before (HttpNetworkTransaction::ShouldResendRequest)
	}
	if n := r.Posts(); n < 2 || n > most {
		t.Errorf("%d messages reached the server, want 2 and at most %d", n, most)
	}
}

func toldBeforeAnswer(t *testing.T, k *kit) {
	for name, script := range map[string]*session.Script{"page": Script(), "api": APIScript()} {
		if name == "api" && k.f.JavaScript {
			continue // a request of a browser context does not say when it has been written
		}
		t.Run(name, func(t *testing.T) {
			r := k.rig(t, script)
			r.Chat(Hang)
			ctx, cancel := context.WithCancel(r.ctx)
			defer cancel()
			r.mu.Lock()
			r.watch = func(p session.Point) {
				if p == session.PointTold {
					cancel() // were told to pass only with the answer, this would never happen
				}
			}
			r.mu.Unlock()
			rc, err := r.Tell(ctx, note(1, "It is $."))
			outcome(t, rc, err, memory.Unknown, session.CauseAborted)
		})
	}
}

func asks(t *testing.T, k *kit) {
	r := k.rig(t, Script())
	m := note(1, "It is $.")
	rc, err := r.Tell(r.ctx, m)
	outcome(t, rc, err, memory.Acknowledged, "")
	r.Chat(Slow)
	tr, err := r.Ask(r.ctx, m)
	must(t, err)
	if !tr.Complete || len(tr.Utterances) != 1 || tr.Utterances[0].Role != "assistant" ||
		!strings.HasPrefix(tr.Utterances[0].Text, "You told me:") || !strings.Contains(tr.Utterances[0].Text, m.Token) {
		t.Errorf("the answer is %+v", tr)
	}
}

func forgets(t *testing.T, k *kit) {
	r := k.rig(t, Script())
	for i := range 3 {
		rc, err := r.Tell(r.ctx, note(i+1, "It is $."))
		outcome(t, rc, err, memory.Acknowledged, "")
	}
	rc, err := r.Forget(r.ctx, note(2, ""))
	outcome(t, rc, err, memory.Acknowledged, "")
	want := []string{note(1, "It is $.").Text, note(3, "It is $.").Text}
	if got := users(r.Messages(r.user.Name)); !slices.Equal(got, want) {
		t.Errorf("after the forget: %q, want %q", got, want)
	}
}

func requests(t *testing.T, k *kit) {
	r := k.rig(t, APIScript())
	var want []string
	for i := range 12 { // more than a page of the history, which counts answers too
		m := note(i+1, `It is "$" — 记住.`)
		rc, err := r.Tell(r.ctx, m)
		outcome(t, rc, err, memory.Acknowledged, "")
		want = append(want, m.Text)
	}
	tr, err := r.Recall(r.ctx)
	must(t, err)
	var got []string
	for _, u := range tr.Utterances {
		got = append(got, u.Text)
	}
	if !tr.Complete || !slices.Equal(got, want) {
		t.Errorf("complete %v, recalled %q, want %q", tr.Complete, got, want)
	}
}

func requestRefused(t *testing.T, k *kit) {
	r := k.rig(t, APIScript(), steps(2*time.Second))
	r.Chat(Fail503)
	rc, err := r.Tell(r.ctx, note(1, "It is $."))
	outcome(t, rc, err, memory.Rejected, session.CauseRejected)
	r.Chat(Busy429)
	rc, err = r.Tell(r.ctx, note(2, "It is $."))
	outcome(t, rc, err, memory.Rejected, session.CauseThrottled)
	r.Chat(Mute503)
	rc, err = r.Tell(r.ctx, note(3, "It is $."))
	outcome(t, rc, err, memory.Unknown, session.CauseResponse)
	r.Chat(Drop)
	rc, err = r.Tell(r.ctx, note(4, "It is $."))
	outcome(t, rc, err, memory.Unknown, session.CauseInterrupted)
	if r.Posts() != 4 {
		t.Errorf("%d requests reached the server, want 4", r.Posts())
	}
}
