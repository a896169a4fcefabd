package chatapp_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	_ "modernc.org/sqlite"

	"amnesia/pkg/chatapp"
	"amnesia/pkg/chatapp/truth"
)

// TestMain lets the test binary be the app, so that tests can kill it.
func TestMain(m *testing.M) {
	if os.Getenv("CHATAPP_TEST_TARGET") == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := chatapp.Main(ctx, os.Getenv, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// target is the app as a process of its own.
type target struct {
	t       *testing.T
	dir     string
	env     []string
	cmd     *exec.Cmd
	url     string
	log     *os.File
	clients map[string]*http.Client
}

// newTarget starts an app whose late writes come after an hour, unless env says otherwise: never, unless it is stopped
// in order.
func newTarget(t *testing.T, env ...string) *target {
	t.Helper()
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	a := &target{t: t, dir: dir, log: log, clients: map[string]*http.Client{}}
	a.env = append(os.Environ(), "CHATAPP_TEST_TARGET=1", "CHATAPP_ADDR=127.0.0.1:0", "CHATAPP_DATA="+filepath.Join(dir, "data"),
		"CHATAPP_SCRATCH="+filepath.Join(dir, "scratch"), "CHATAPP_TRUTH="+filepath.Join(dir, "truth.jsonl"), "CHATAPP_DRAIN=1h",
		"GORACE=atexit_sleep_ms=0") // the race detector would wait a second at every exit
	a.env = append(a.env, env...)
	t.Cleanup(func() {
		if a.cmd != nil {
			a.kill()
		}
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("log of the app:\n%s", text)
		}
		log.Close()
	})
	a.start()
	return a
}

func (a *target) start() {
	a.t.Helper()
	a.cmd = exec.Command(os.Args[0])
	a.cmd.Env, a.cmd.Stderr = a.env, a.log
	stdout, err := a.cmd.StdoutPipe()
	if err == nil {
		err = a.cmd.Start()
	}
	if err != nil {
		a.t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		a.t.Fatalf("the app did not start: %v", err)
	}
	a.url = strings.TrimSpace(line)
}

// kill sends SIGKILL.
func (a *target) kill() {
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
	a.cmd = nil
}

// stop sends SIGTERM, and the app must end well.
func (a *target) stop() {
	a.t.Helper()
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		a.t.Fatal(err)
	}
	if err := a.cmd.Wait(); err != nil {
		a.t.Errorf("after SIGTERM: %v", err)
	}
	a.cmd = nil
}

// user gives a client that is logged in, and stays so over restarts.
func (a *target) user(name string) *http.Client {
	a.t.Helper()
	if a.clients[name] == nil {
		jar, err := cookiejar.New(nil)
		if err != nil {
			a.t.Fatal(err)
		}
		a.clients[name] = &http.Client{Jar: jar, Timeout: patience}
		if doc := a.post(name, "/login", url.Values{"username": {name}, "password": {"pw of " + name}}); doc.Find("#composer").Length() != 1 {
			a.t.Fatalf("%s is not on the chat page after the login", name)
		}
	}
	return a.clients[name]
}

// post sends a form as a page does, with CRLF line ends, and gives the page that comes.
func (a *target) post(user, path string, form url.Values) *goquery.Document {
	a.t.Helper()
	for _, values := range form {
		for i := range values {
			values[i] = strings.ReplaceAll(values[i], "\n", "\r\n")
		}
	}
	resp, err := a.user(user).PostForm(a.url+path, form)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.document(resp)
}

func (a *target) document(resp *http.Response) *goquery.Document {
	a.t.Helper()
	defer resp.Body.Close()
	doc, err := goquery.NewDocumentFromReader(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return doc
}

// tell sends a message by the page's form, and the page must confirm it.
func (a *target) tell(user, text string) {
	a.t.Helper()
	doc := a.post(user, "/api/chat", url.Values{"message": {text}})
	if got := doc.Find(".message.assistant .text").Last().Text(); got != "Saved: "+text {
		a.t.Fatalf("%q was not confirmed: %q", text, got)
	}
}

// page gives what a fresh page shows as the user's own utterances, following #older to the end.
func (a *target) page(user string) []string {
	a.t.Helper()
	var texts []string
	for path := "/chat"; path != ""; {
		resp, err := a.user(user).Get(a.url + path)
		if err != nil {
			a.t.Fatal(err)
		}
		doc := a.document(resp)
		texts = append(texts, doc.Find(".message.user .text").Map(func(_ int, s *goquery.Selection) string { return s.Text() })...)
		path = doc.Find("#older").AttrOr("href", "")
	}
	slices.Sort(texts)
	return texts
}

func (a *target) get(path string, into any) int {
	a.t.Helper()
	resp, err := http.Get(a.url + path)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		a.t.Fatalf("%s: %v in %q", path, err, body)
	}
	return resp.StatusCode
}

// vectors gives what the vector memory holds of the user.
func (a *target) vectors(user string) []string {
	a.t.Helper()
	var texts []string
	for path := "/debug/vectors?" + (url.Values{"user": {user}}).Encode(); path != ""; {
		var page struct {
			Items []struct{ ID, User, Text string }
			Next  string
		}
		if status := a.get(path, &page); status == http.StatusNotFound {
			return nil
		}
		for _, item := range page.Items {
			if item.User != user {
				a.t.Errorf("asked for %s, got a memory of %s", user, item.User)
			}
			texts = append(texts, item.Text)
		}
		path = page.Next
	}
	slices.Sort(texts)
	return texts
}

// open opens the database as another process does, with SQLite's URI parameters.
func (a *target) open(parameters string) *sql.DB {
	a.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(a.dir, "data", "chat.db")+parameters)
	if err != nil {
		a.t.Fatal(err)
	}
	return db
}

// database gives what another process reads in the database.
func (a *target) database(user string) []string {
	a.t.Helper()
	db := a.open("?mode=ro")
	defer db.Close()
	rows, err := db.Query(`SELECT content FROM chat_memory WHERE user_id = ? ORDER BY content`, user)
	if err != nil {
		a.t.Fatal(err)
	}
	defer rows.Close()
	var texts []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			a.t.Fatal(err)
		}
		texts = append(texts, text)
	}
	if err := rows.Err(); err != nil {
		a.t.Fatal(err)
	}
	return texts
}

// lock keeps the app from writing to its database.
func (a *target) lock() (unlock func()) {
	a.t.Helper()
	db := a.open("?_txlock=immediate")
	tx, err := db.Begin()
	if err != nil {
		a.t.Fatal(err)
	}
	return func() {
		if err := errors.Join(tx.Rollback(), db.Close()); err != nil {
			a.t.Fatal(err)
		}
	}
}

// ask sends a question and gives the answer.
func (a *target) ask(user, question string) string {
	a.t.Helper()
	return a.post(user, "/api/chat", url.Values{"message": {question}}).Find(".message.assistant .text").Last().Text()
}

// forget presses the button of the message with that text.
func (a *target) forget(user, text string) *goquery.Document {
	a.t.Helper()
	resp, err := a.user(user).Get(a.url + "/chat")
	if err != nil {
		a.t.Fatal(err)
	}
	id := a.document(resp).Find(".message.user").FilterFunction(func(_ int, s *goquery.Selection) bool {
		return s.Find(".text").Text() == text && s.Find("button.forget").Length() == 1
	}).Find("input[name=id]").AttrOr("value", "")
	if id == "" {
		a.t.Fatalf("%q has no button to forget it", text)
	}
	return a.post(user, "/api/forget", url.Values{"id": {id}})
}

// truth gives the one memory with that text as the truth log has it.
func (a *target) truth(text string) truth.Memory {
	a.t.Helper()
	log, err := truth.Read(filepath.Join(a.dir, "truth.jsonl"))
	if err != nil {
		a.t.Fatal(err)
	}
	ms := log.Of(text)
	if len(ms) != 1 {
		a.t.Fatalf("the truth log knows %d memories with %q, want 1", len(ms), text)
	}
	return ms[0]
}

// wait waits until the condition holds.
func wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal(errors.New("waited in vain: " + what))
		}
	}
}

// freeAddress gives an address at which an app can be started again and again, for pages that must find it there.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
