package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestClient talks to a whole server, as the command line does.
func TestClient(t *testing.T) {
	d := &daemon{}
	srv := httptest.NewServer(api(t, d))
	defer srv.Close()
	c := Client{Address: strings.TrimPrefix(srv.URL, "http://"), Token: token}
	if st, err := c.Status(t.Context()); err != nil || st.Run != "r1" || st.Cycle == nil || st.Cycle.N != 3 {
		t.Errorf("status: %+v, %v", st, err)
	}
	if st, err := c.Pause(t.Context(), "a release"); err != nil || len(st.Held) != 1 || st.Held[0].Why != "a release" {
		t.Errorf("pause: %+v, %v", st, err)
	}
	if st, err := c.Resume(t.Context()); err != nil || len(st.Held) != 0 {
		t.Errorf("resume: %+v, %v", st, err)
	}
	if st, err := c.Inject(t.Context(), Ask{Kind: "kill", Service: "app"}); err != nil || st.Asked == nil {
		t.Errorf("inject: %+v, %v", st, err)
	}
	c.Token = "another"
	if _, err := c.Pause(t.Context(), ""); err == nil || !strings.HasPrefix(err.Error(), "the daemon at "+srv.URL+": this needs the daemon's token — fix: set AMNESIA_TOKEN to it, or --ledger ") || d.held != nil {
		t.Errorf("with a wrong token: %v", err)
	}
}

// TestClientKeepsItsSecrets: the token goes to the daemon alone, and the password of an address into no error.
func TestClientKeepsItsSecrets(t *testing.T) {
	asked := ""
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = r.Header.Get(TokenHeader) + "?" }))
	defer elsewhere.Close()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "ann" || password != "sesame" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	address := strings.Replace(srv.URL, "http://", "http://ann:sesame@", 1)
	_, err := Client{Address: address, Token: token}.Pause(t.Context(), "")
	if asked != "" || err == nil || !strings.Contains(err.Error(), "307 Temporary Redirect") || strings.Contains(err.Error(), "sesame") {
		t.Errorf("a redirect: asked elsewhere with %q, %v", asked, err)
	}
	srv.Close()
	_, err = Client{Address: address, Token: token}.Pause(t.Context(), "")
	if err == nil || !strings.Contains(err.Error(), " — fix: start it with 'amnesia run', or give its --address, or AMNESIA_ADDRESS") || strings.Contains(err.Error(), "sesame") || strings.Contains(err.Error(), token) {
		t.Errorf("nobody there: %v", err)
	}
	_, err = Client{Address: "http://ann:sesame@[::1", Token: token}.Status(t.Context())
	if err == nil || strings.Contains(err.Error(), "sesame") {
		t.Errorf("an address that is none: %v", err)
	}
}
