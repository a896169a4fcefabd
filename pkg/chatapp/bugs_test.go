package chatapp_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/PuerkitoBio/goquery"
)

// TestFaults tells one memory in an earlier life of the app and one just before a fault, and then looks in every place
// where each should be: what the bug loses must be gone, what it does not lose must be there, and the truth log must
// know.
func TestFaults(t *testing.T) {
	t.Parallel()
	kill := func(a *target) { a.kill(); a.start() }
	restart := func(a *target) { a.stop(); a.start() }
	wipe := func(a *target) {
		a.kill()
		if err := os.RemoveAll(filepath.Join(a.dir, "scratch")); err != nil {
			a.t.Fatal(err)
		}
		a.start()
	}
	none := func(*target) {}
	everywhere := []string{"database", "page", "vectors"}
	notInVectors := []string{"database", "page"}

	for _, c := range []struct {
		name     string
		bugs     string
		homes    string
		fault    func(*target)
		old, new []string // where the memories must be
	}{
		{"healthy, kill", "", "", kill, everywhere, everywhere},
		{"healthy, restart", "", "", restart, everywhere, everywhere},
		{"healthy, wipe", "", "", wipe, everywhere, everywhere},
		{"healthy, only the database, kill", "", "database", kill, notInVectors, notInVectors},
		{"healthy, only vectors, wipe", "", "vectors", wipe, []string{"page", "vectors"}, []string{"page", "vectors"}},
		{"ack-early, kill", "ack-early", "", kill, everywhere, nil},
		{"ack-early, restart", "ack-early", "", restart, everywhere, everywhere},
		{"buffered, kill", "buffered", "", kill, everywhere, nil},
		{"buffered, restart", "buffered", "", restart, everywhere, everywhere},
		{"counter-id, none", "counter-id", "", none, everywhere, notInVectors},
		{"counter-id, restart", "counter-id", "", restart, everywhere, notInVectors},
		{"dual-write-gap, kill", "dual-write-gap", "", kill, everywhere, notInVectors},
		{"dual-write-gap, restart", "dual-write-gap", "", restart, everywhere, everywhere},
		{"ephemeral-client, none", "ephemeral-client", "", none, notInVectors, everywhere},
		{"ephemeral-client, restart", "ephemeral-client", "", restart, notInVectors, notInVectors},
		{"ephemeral-volume, kill", "ephemeral-volume", "", kill, everywhere, everywhere},
		{"ephemeral-volume, wipe", "ephemeral-volume", "", wipe, notInVectors, notInVectors},
		{"ephemeral-volume, only vectors, wipe", "ephemeral-volume", "vectors", wipe, nil, nil},
		{"local-echo, kill", "local-echo", "", kill, everywhere, nil},
		{"stale-cache, none", "stale-cache", "", none, []string{"database", "vectors"}, everywhere},
		{"stale-cache, restart", "stale-cache", "", restart, []string{"database", "vectors"}, []string{"database", "vectors"}},
		{"swallowed-error, kill", "swallowed-error", "", kill, everywhere, everywhere},
		{"ui-field, none", "ui-field", "", none, []string{"database", "vectors"}, []string{"database", "vectors"}},
		{"unsynced, kill", "unsynced", "", kill, everywhere, everywhere},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := newTarget(t, "CHATAPP_BUGS="+c.bugs, "CHATAPP_HOMES="+c.homes)
			a.tell("ada", "an old memory")
			a.stop()
			a.start()
			a.tell("ada", "a new memory")
			c.fault(a)
			for text, want := range map[string][]string{"an old memory": c.old, "a new memory": c.new} {
				var got []string
				for place, texts := range map[string][]string{"database": a.database("ada"), "page": a.page("ada"), "vectors": a.vectors("ada")} {
					if slices.Contains(texts, text) {
						got = append(got, place)
					}
				}
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Errorf("%s is in %q, want %q", text, got, want)
				}
				told := a.truth(text)
				if !told.Acknowledged || told.Deleted {
					t.Errorf("%s: the truth log says %+v", text, told)
				}
				for _, store := range []string{"database", "vectors"} {
					if told.In(store) != slices.Contains(want, store) {
						t.Errorf("%s: the truth log has it in %q, want %q", text, told.Stores, want)
					}
				}
			}
		})
	}
}

// TestResend: a message that a browser sends once more, since the process that had taken it died over the answer, is saved
// once. What a user says twice is saved twice.
func TestResend(t *testing.T) {
	t.Parallel()
	for _, homes := range []string{"", "vectors"} {
		a := newTarget(t, "CHATAPP_HOMES="+homes)
		a.tell("ada", "a memory")
		a.kill()
		a.start()
		a.tell("ada", "a memory")
		a.tell("ben", "a memory")
		a.tell("ben", "said twice")
		a.tell("ben", "said twice")
		for user, want := range map[string][]string{"ada": {"a memory"}, "ben": {"a memory", "said twice", "said twice"}} {
			if page, vectors := a.page(user), a.vectors(user); !slices.Equal(page, want) || len(vectors) != len(want) {
				t.Errorf("homes %q, %s: the page shows %q, the vector memory has %q", homes, user, page, vectors)
			}
		}
	}
}

// TestBufferIsSeen checks that a buffered memory looks kept while the process lives, and that a full buffer is written.
func TestBufferIsSeen(t *testing.T) {
	t.Parallel()
	a := newTarget(t, "CHATAPP_BUGS=buffered")
	a.tell("ada", "a buffered memory")
	if got := a.page("ada"); !slices.Equal(got, []string{"a buffered memory"}) {
		t.Errorf("the page shows %q", got)
	}
	if got := a.database("ada"); len(got) > 0 {
		t.Errorf("the database has %q, too early", got)
	}
	a.tell("ada", strings.Repeat("long ", 64<<10/5+1))
	if got := a.database("ada"); len(got) != 2 {
		t.Errorf("the database has %d memories after 64 KiB, want 2", len(got))
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	for _, bug := range []string{"ack-early", "dual-write-gap", "local-echo"} {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			a := newTarget(t, "CHATAPP_BUGS="+bug, "CHATAPP_DRAIN=20ms")
			a.tell("ada", "a memory")
			wait(t, "the late write", func() bool { return len(a.vectors("ada")) == 1 && len(a.database("ada")) == 1 })
			a.kill()
			a.start()
			if got := a.vectors("ada"); len(got) != 1 {
				t.Errorf("after the kill the vector memory has %q", got)
			}
		})
	}
}

func TestSlowIndex(t *testing.T) {
	t.Parallel()
	a := newTarget(t, "CHATAPP_BUGS=slow-index", "CHATAPP_INDEX_DELAY=1s")
	a.tell("ada", "a slow memory")
	if page, vectors := a.page("ada"), a.vectors("ada"); len(page)+len(vectors) > 0 {
		t.Fatalf("seen at once: on the page %q, in the vector memory %q", page, vectors)
	}
	if told := a.truth("a slow memory"); !told.In("database") || !told.In("vectors") {
		t.Errorf("stored in %q only", told.Stores)
	}
	a.kill()
	a.start()
	wait(t, "the slow memory", func() bool { return len(a.page("ada")) == 1 && len(a.vectors("ada")) == 1 })
}

func TestLeak(t *testing.T) {
	t.Parallel()
	for bugs, want := range map[string][]string{"": {"of ada"}, "leak": {"of ada", "of bob"}} {
		t.Run("bugs "+bugs, func(t *testing.T) {
			t.Parallel()
			a := newTarget(t, "CHATAPP_BUGS="+bugs)
			a.tell("ada", "of ada")
			a.tell("bob", "of bob")
			if got := a.page("ada"); !slices.Equal(got, want) {
				t.Errorf("ada's page shows %q, want %q", got, want)
			}
			answer := a.ask("ada", "What is of bob?")
			if strings.Contains(answer, "of bob") != (bugs == "leak") {
				t.Errorf("ada is answered %q", answer)
			}
			if got := a.vectors("ada"); !slices.Equal(got, []string{"of ada"}) {
				t.Errorf("the vector memory has %q under ada", got)
			}
		})
	}
}

// TestForget deletes a memory: it must be gone from every place, answers included, and stay so.
func TestForget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bugs       string
		resurfaces bool
		bobs       int // how many of bob's memories are left when ada deletes hers
	}{{"", false, 1}, {"ghost-delete", true, 1}, {"wipe-scope", false, 0}} {
		t.Run("bugs "+c.bugs, func(t *testing.T) {
			t.Parallel()
			a := newTarget(t, "CHATAPP_BUGS="+c.bugs)
			a.tell("bob", "of bob")
			a.tell("ada", "the code is 4711")
			if got := a.ask("ada", "What is the code?"); got != "You told me: the code is 4711" {
				t.Errorf("the answer is %q", got)
			}
			a.ask("ada", "Who is it?")
			a.forget("ada", "Who is it?")
			if got := a.page("ada"); !slices.Equal(got, []string{"What is the code?", "the code is 4711"}) {
				t.Errorf("a question was forgotten, and the page shows %q", got)
			}
			if doc := a.forget("ada", "the code is 4711"); !strings.Contains(doc.Find("[role=status]").Text(), "Forgotten") {
				t.Error("no confirmation")
			} else if strings.Contains(doc.Text(), "4711") {
				t.Error("the page repeats what it forgot")
			}
			if told := a.truth("4711"); !told.Deleted || len(told.Stores) > 0 {
				t.Errorf("the truth log says %+v", told)
			}
			if got := a.database("bob"); len(got) != c.bobs || len(a.vectors("bob")) != c.bobs {
				t.Errorf("bob has %q", got)
			}
			a.stop() // also runs what is still queued
			a.start()
			for place, texts := range map[string][]string{"page": a.page("ada"), "database": a.database("ada"), "vectors": a.vectors("ada")} {
				if slices.Contains(texts, "the code is 4711") != c.resurfaces {
					t.Errorf("%s after a restart: %q", place, texts)
				}
			}
		})
	}
}

// TestForgetQueued deletes a memory that is still on its way to the stores: it must not land.
func TestForgetQueued(t *testing.T) {
	t.Parallel()
	a := newTarget(t, "CHATAPP_BUGS=ack-early")
	doc := a.post("ada", "/api/chat", map[string][]string{"message": {"queued"}})
	id := doc.Find(".message.user").Last().AttrOr("data-id", "")
	if doc := a.post("bob", "/api/forget", map[string][]string{"id": {id}}); doc.Find("[role=alert]").Length() == 0 {
		t.Error("bob could forget what ada told")
	}
	if doc := a.post("ada", "/api/forget", map[string][]string{"id": {id}}); doc.Find("[role=status]").Length() == 0 {
		t.Error("no confirmation")
	}
	a.stop()
	if told := a.truth("queued"); !told.Deleted || len(told.Once) > 0 {
		t.Errorf("the truth log says %+v", told)
	}
}

// TestStoreDown locks the database from outside. The honest app tells the user and the log; swallowed-error tells
// nobody.
func TestStoreDown(t *testing.T) {
	t.Parallel()
	for bugs, honest := range map[string]bool{"": true, "swallowed-error": false} {
		t.Run("bugs "+bugs, func(t *testing.T) {
			t.Parallel()
			a := newTarget(t, "CHATAPP_BUGS="+bugs)
			a.tell("ada", "before")
			unlock := a.lock()
			resp, err := a.user("ada").PostForm(a.url+"/api/chat", map[string][]string{"message": {"meanwhile"}})
			if err != nil {
				t.Fatal(err)
			}
			doc := a.document(resp)
			unlock()
			told, alert := a.truth("meanwhile"), doc.Find("[role=alert]").Length()
			log, err := os.ReadFile(a.log.Name())
			if err != nil {
				t.Fatal(err)
			}
			logged := slices.ContainsFunc(bytes.Split(log, []byte("\n")), func(line []byte) bool {
				return bytes.Contains(line, []byte(`"level":"error"`)) && bytes.Contains(line, []byte("meanwhile"))
			})
			if honest {
				if resp.StatusCode != http.StatusServiceUnavailable || alert != 1 || doc.Find("#message").Text() != "meanwhile" || told.Acknowledged || !logged {
					t.Errorf("status %d, %d alerts, draft %q, logged %v; the truth log says %+v", resp.StatusCode, alert, doc.Find("#message").Text(), logged, told)
				}
			} else if resp.StatusCode != http.StatusOK || alert != 0 || !told.Acknowledged || logged {
				t.Errorf("status %d, %d alerts, logged %v; the truth log says %+v", resp.StatusCode, alert, logged, told)
			}
			if told.In("database") {
				t.Error("the locked database has it")
			}
			if got := a.page("ada"); !slices.Equal(got, []string{"before"}) {
				t.Errorf("the page shows %q", got)
			}
			a.tell("ada", "after")
		})
	}
}

// TestReconcile makes the state that a kill between two writes leaves, which a healthy app mends at its start.
func TestReconcile(t *testing.T) {
	t.Parallel()
	a := newTarget(t)
	for _, text := range []string{"one", "two", "three"} {
		a.tell("ada", text)
	}
	a.stop()
	// Cut the vector memory's last frame in half: "three" is missing, as if its write had been killed.
	index := filepath.Join(a.dir, "data", "vectors", "index")
	data, err := os.ReadFile(index)
	if err == nil {
		err = os.WriteFile(index, data[:len(data)-10], 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	// And delete "one" from the database only.
	db := a.open("")
	if _, err := db.Exec(`DELETE FROM chat_memory WHERE content = 'one'`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	a.start()
	if got := a.vectors("ada"); !slices.Equal(got, []string{"three", "two"}) {
		t.Errorf("the vector memory holds %q, want what the database holds", got)
	}
	for text, want := range map[string][]string{"one": nil, "three": {"database", "vectors"}} {
		if got := a.truth(text).Stores; !slices.Equal(got, want) {
			t.Errorf("the truth log has %q in %q, want %q", text, got, want)
		}
	}
	if once := a.truth("one"); !slices.Contains(once.Once, "vectors") {
		t.Errorf("the truth log says that %q once stood in %q", once.Text, once.Once)
	}
}

// TestCrowd has many users tell at once until the app is killed in the middle: whatever was confirmed must be
// everywhere, and in the right place.
func TestCrowd(t *testing.T) {
	t.Parallel()
	a := newTarget(t)
	confirmed := make([][]string, 6)
	var crowd sync.WaitGroup
	var enough sync.WaitGroup
	for n := range confirmed {
		name := fmt.Sprintf("user %d", n)
		client, address := a.user(name), a.url+"/api/chat"
		enough.Add(3)
		crowd.Go(func() {
			for i := 0; ; i++ {
				text := fmt.Sprintf("memory %d of %s", i, name)
				resp, err := client.PostForm(address, url.Values{"message": {text}})
				if err != nil {
					break // the app is dead
				}
				doc, err := goquery.NewDocumentFromReader(resp.Body)
				resp.Body.Close()
				if err != nil || doc.Find(".message.assistant .text").Last().Text() != "Saved: "+text {
					break
				}
				confirmed[n] = append(confirmed[n], text)
				if i < 3 {
					enough.Done()
				}
			}
			for i := len(confirmed[n]); i < 3; i++ {
				t.Errorf("%s was not served", name)
				enough.Done()
			}
		})
	}
	enough.Wait()
	a.kill()
	crowd.Wait()
	a.start()
	for n, texts := range confirmed {
		name := fmt.Sprintf("user %d", n)
		page, database, vectors := a.page(name), a.database(name), a.vectors(name)
		for _, text := range texts {
			if !slices.Contains(page, text) || !slices.Contains(database, text) || !slices.Contains(vectors, text) {
				t.Errorf("%q was confirmed and is not everywhere", text)
			}
		}
		if len(database) > len(texts)+1 || !slices.Equal(database, vectors) || !slices.Equal(database, page) {
			t.Errorf("%s: %d confirmed, %d in the database, %d in the vector memory, %d on the page", name, len(texts), len(database), len(vectors), len(page))
		}
	}
}
