package browser_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"amnesia/pkg/session"
	"amnesia/pkg/session/browser"
)

func numbers(from, to int) (texts []string) {
	for i := from; i < to; i++ {
		texts = append(texts, fmt.Sprintf("message %03d", i))
	}
	return texts
}

func drawn(t *testing.T, d *browser.Driver) {
	release := make(chan struct{})
	srv := site(t, map[string]string{
		"/slow": `<ul id="log"></ul><script>fetch('/history').then(r => r.json()).then(all => setTimeout(() => {
			document.querySelector('#log').innerHTML = all.map(m => '<li>' + m + '</li>').join('') + '<li hidden>a template</li>';
		}, 20))</script>`,
		"/failing": `<ul id="log"><li>message 000</li></ul><script>fetch('/503')</script>`,
		"/endless": `<ul id="log"><li>message 000</li></ul><p id="ready">3 messages</p><script>fetch('/hang')</script>`,
	}, map[string]http.HandlerFunc{
		"/history": func(w http.ResponseWriter, r *http.Request) {
			select { // slower than the page is still
			case <-time.After(250 * time.Millisecond):
			case <-release:
			}
			fmt.Fprint(w, `["message 000", "message 001", "message 002"]`)
		},
		"/503":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"/hang": hang,
	})
	t.Cleanup(func() { close(release) })
	s := open(t, d.At(srv.URL), "drawn")
	read := session.Read{Selector: "#log li"}
	must(t, s.Goto(t.Context(), "/slow"))
	if got, complete, err := s.Read(t.Context(), read); err != nil || !complete || !slices.Equal(got, numbers(0, 3)) {
		t.Errorf("slow: %q, %v, %v", got, complete, err)
	}
	must(t, s.Goto(t.Context(), "/failing"))
	if got, complete, err := s.Read(t.Context(), read); err != nil || complete || len(got) != 1 {
		t.Errorf("failing: %q, %v, %v; nothing proves that this is all", got, complete, err)
	}
	must(t, s.Goto(t.Context(), "/endless"))
	read.Ready = &session.Expect{Selector: "#ready"}
	if got, complete, err := s.Read(t.Context(), read); err != nil || !complete || len(got) != 1 {
		t.Errorf("ready: %q, %v, %v", got, complete, err)
	}
	read.Ready = &session.Expect{Selector: "#never", Timeout: 100 * time.Millisecond}
	if _, complete, err := s.Read(t.Context(), read); err == nil || complete {
		t.Errorf("never ready: %v, %v", complete, err)
	}
}

func scrolls(t *testing.T, d *browser.Driver) {
	const style = `<style>#log {height: 200px; overflow-y: auto; margin: 0; padding: 0} li {height: 20px; list-style: none}</style>`
	srv := site(t, map[string]string{
		// Older messages come when the top is reached.
		"/older": style + `<ul id="log"></ul><script>
			const log = document.querySelector('#log'); let first = 45, busy = false;
			const add = () => { const was = log.scrollHeight; const from = Math.max(0, first - 15);
				for (let i = first - 1; i >= from; i--) log.insertAdjacentHTML('afterbegin', '<li>message ' + String(i).padStart(3, '0') + '</li>');
				first = from; log.scrollTop += log.scrollHeight - was; };
			add(); log.scrollTop = log.scrollHeight;
			log.addEventListener('scroll', () => { if (log.scrollTop < 50 && first > 0 && !busy) {
				busy = true; fetch('/tick').then(() => { add(); busy = false; }); } });</script>`,
		// Only what can be seen is in the document.
		"/window": style + `<div id="log" style="height: 200px; overflow-y: auto"><div style="height: 1200px; position: relative" id="all"></div></div><script>
			const log = document.querySelector('#log'), all = document.querySelector('#all');
			const draw = () => { const from = Math.floor(log.scrollTop / 20); all.innerHTML = '';
				for (let i = from; i < Math.min(60, from + 11); i++)
					all.insertAdjacentHTML('beforeend', '<li style="position: absolute; top: ' + i * 20 + 'px">message ' + String(i).padStart(3, '0') + '</li>'); };
			draw(); log.addEventListener('scroll', draw);</script>`,
	}, map[string]http.HandlerFunc{"/tick": func(http.ResponseWriter, *http.Request) {}})
	s := open(t, d.At(srv.URL), "scrolls")
	for path, want := range map[string][]string{"/older": numbers(0, 45), "/window": numbers(0, 60)} {
		must(t, s.Goto(t.Context(), path))
		got, complete, err := s.Read(t.Context(), session.Read{Selector: "#log li", More: &session.More{Scroll: "#log"}})
		if err != nil || !complete || !slices.Equal(got, want) {
			t.Errorf("%s: complete %v, %v: %d %q", path, complete, err, len(got), got)
		}
	}
}

func button(t *testing.T, d *browser.Driver) {
	const more = `const log = document.querySelector('#log'), more = document.querySelector('#more'); let n = 0;
		const add = () => { for (const end = n + 5; n < end; n++) log.insertAdjacentHTML('beforeend', '<li>message ' + String(n).padStart(3, '0') + '</li>'); };
		add();`
	srv := site(t, map[string]string{
		// The button is disabled while it loads, too.
		"/disabled": `<ul id="log"></ul><button id="more">More</button><script>` + more + `
			more.onclick = () => { more.disabled = true; fetch('/tick').then(() => { add(); more.disabled = n >= 15; }); };</script>`,
		"/dead": `<ul id="log"></ul><button id="more">More</button><script>` + more + `</script>`,
	}, map[string]http.HandlerFunc{"/tick": func(http.ResponseWriter, *http.Request) {}})
	s := open(t, d.At(srv.URL), "button")
	for path, want := range map[string]struct {
		texts    []string
		complete bool
	}{"/disabled": {numbers(0, 15), true}, "/dead": {numbers(0, 5), false}} {
		must(t, s.Goto(t.Context(), path))
		got, complete, err := s.Read(t.Context(), session.Read{Selector: "#log li", More: &session.More{Click: "#more"}})
		if err != nil || complete != want.complete || !slices.Equal(got, want.texts) {
			t.Errorf("%s: complete %v, %v: %d %q", path, complete, err, len(got), got)
		}
	}
}
