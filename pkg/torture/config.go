//go:build linux

package torture

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"amnesia/pkg/chatapp/truth"
	"amnesia/pkg/fact"
	"amnesia/pkg/ledger"
)

//go:embed torture.yaml
var configuration string

// configure writes the amnesia.yaml of the run.
func (b *bench) configure(ctx context.Context) error {
	for _, name := range []string{b.Dir, filepath.Join(b.Dir, "truth")} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			return err
		}
	}
	var err error
	if b.settings.Web, err = freeAddress(ctx); err != nil {
		return err
	}
	b.target.fill(&b.settings)
	t, err := template.New("torture.yaml").Delims("<<", ">>").Parse(configuration)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := t.Execute(&text, b.settings); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.Dir, "amnesia.yaml"), text.Bytes(), 0o640)
}

// freeAddress gives a loopback address that is free now.
func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// untold names the memories that the app itself was told and of which the ledger knows nothing: a memory is in the books
// before its first keystroke is sent.
func (b *bench) untold() ([]string, error) {
	record, err := truth.Read(filepath.Join(b.Dir, "truth", "truth.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	books, err := ledger.OpenReadOnly(context.Background(), b.ledger())
	if err != nil {
		return nil, err
	}
	defer books.Close()
	tokens := map[string]bool{}
	for e, err := range books.Facts(context.Background(), 0) {
		if err != nil {
			return nil, err
		}
		if f, ok := e.Fact.(fact.Begun); ok {
			tokens[f.Memory.Token] = true
		}
	}
	var missing []string
	other := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') } // tokens are of these only
	for _, m := range record.Memories() {
		if !slices.ContainsFunc(strings.FieldsFunc(m.Text, other), func(word string) bool { return tokens[word] }) {
			missing = append(missing, fmt.Sprintf("the app was told %q, and the ledger knows nothing of it", m.Text))
		}
	}
	return missing, nil
}
