package ledger

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"

	"amnesia/pkg/fact"
	"amnesia/pkg/image"
)

// Fold is what somebody makes of the facts, one after the other, and needs again whenever the ledger is opened.
type Fold struct {
	Name  string
	Apply func(fact.Entry)
	// Lend calls fn with a pointer to all that Apply has made, and to nothing else, while nobody changes it. It is plain
	// data (see package image).
	Lend func(fn func(state any) error) error
}

// Images are made when so many facts were appended since the last ones, and more when they are large: so they cost little
// beside the facts, and a daemon that was killed has few to fold.
const (
	imageEvery     = 1 << 14 // facts
	imageBytesEach = 64      // of the last images, to a fact
)

// imageMost bounds the bytes of one image before it is compressed: those that are made while cycles run, where appends
// wait for them, and those of an orderly end.
const (
	imageMostRunning = 16 << 20
	imageMostEnding  = 64 << 20
)

// looks is the fold of the cache of looks, of which only the image is asked for.
func looks(w *writer) Fold {
	return Fold{Name: "looks", Lend: func(fn func(any) error) error { return fn(w.cache) }}
}

// Restore brings folds up to the last fact: from their images as far as those go, and from the facts after that. It is
// called once, before the first Append. An image is used only if it is whole, was made by this very program, of these
// types, and of facts that are in the ledger: in any doubt every fact is folded, which gives the same.
func (l *Ledger) Restore(ctx context.Context, folds ...Fold) error {
	start := time.Now()
	from := make([]int64, len(folds))
	err := l.reading(ctx, func(c *conn) error {
		for i, f := range folds {
			from[i] = l.picture(ctx, c, f)
		}
		return nil
	})
	if err != nil {
		return l.wrap("reading", err)
	}
	l.folds = folds
	if len(folds) == 0 {
		return nil
	}
	after := from[0]
	for _, seq := range from {
		after = min(after, seq)
	}
	folded := 0
	for e, err := range l.Facts(ctx, after) {
		if err != nil {
			return err
		}
		folded++
		for i := range folds {
			if e.Seq > from[i] {
				folds[i].Apply(e)
			}
		}
	}
	l.opts.Logger.Info("the ledger is folded", zap.Int64("from_images", after), zap.Int("facts", folded), zap.Duration("took", time.Since(start)))
	return nil
}

// picture makes a fold what its image says, and gives the seq that the image stands for; 0 when there is none to be
// trusted, and the fold is as it was.
func (l *Ledger) picture(ctx context.Context, c *conn, f Fold) (seq int64) {
	i, err := readImage(ctx, c, f.Name)
	if err == nil && i != nil {
		err = f.Lend(func(state any) error { return i.into(state) })
	}
	switch {
	case err != nil:
		l.opts.Logger.Info("an image is not used, and every fact is folded", zap.String("image", f.Name), zap.Error(err))
		return 0
	case i == nil:
		return 0
	}
	l.imaged.Store(i.seq)
	if i.boot != "" && i.boot == l.opts.Clock.Now().Boot {
		l.sound = i.seq
	}
	return i.seq
}

// KeepImages has the images of the folds kept for the next start, as of the facts that are durable then. Appends wait
// meanwhile. While cycles run a large fold is left out.
func (l *Ledger) KeepImages(ctx context.Context, ending bool) error {
	most := int64(imageMostRunning)
	if ending {
		most = imageMostEnding
	}
	if l.lock == nil {
		return l.wrap("keeping images in", ErrReadOnly)
	}
	r := &request{run: func(ctx context.Context) error { return l.writer.keepImages(ctx, l, most) }, done: make(chan error, 1)}
	if !l.queue.put(r) {
		return l.wrap("keeping images in", ErrClosed)
	}
	select {
	case err := <-r.done:
		if err != nil {
			return l.wrap("keeping images in", err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ImagesDue reports whether so much was appended since the last images that new ones are worth while.
func (l *Ledger) ImagesDue() bool {
	since := l.last.Load() - l.imaged.Load()
	return since >= imageEvery && since >= l.imageBytes.Load()/imageBytesEach
}

// picture is an image as the ledger keeps it.
type picture struct {
	name          string
	seq           int64
	last, program []byte
	boot          string
	body          []byte
}

// sum is the fingerprint of all of it.
func (i *picture) sum() []byte {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(i.name), binary.BigEndian.AppendUint64(nil, uint64(i.seq)), i.last, i.program, []byte(i.boot), i.body} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	return h.Sum(nil)
}

// into makes a fold's state what the image says.
func (i *picture) into(state any) error {
	raw, err := io.ReadAll(flate.NewReader(bytes.NewReader(i.body)))
	if err != nil {
		return err
	}
	return image.Decode(raw, state)
}

// readImage gives the image of a name; nil when there is none, and an error when it must not be used.
func readImage(ctx context.Context, c *conn, name string) (*picture, error) {
	s, err := c.compile("SELECT seq, last, program, boot, sum, body FROM image WHERE name = ?")
	if err != nil {
		return nil, err
	}
	defer s.Close()
	r, err := s.query(ctx, name)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if !r.next() {
		return nil, r.err
	}
	i := &picture{name: name, seq: r.int(0), last: r.blob(1), program: r.blob(2), boot: r.string(3), body: r.blob(5)}
	sum := r.blob(4)
	if r.err != nil {
		return nil, r.err
	}
	if !bytes.Equal(sum, i.sum()) {
		return nil, fmt.Errorf("its fingerprint is another: %w", errDamaged)
	}
	program, err := image.Program()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(i.program, program[:]) {
		return nil, errors.New("another program made it")
	}
	last, err := fingerprint(ctx, c, i.seq)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(i.last, last) {
		return nil, fmt.Errorf("it was made of another fact %d", i.seq)
	}
	return i, nil
}

// fingerprint gives that of a fact; an error when it is not there.
func fingerprint(ctx context.Context, c *conn, seq int64) ([]byte, error) {
	if seq == 0 {
		return []byte{}, nil
	}
	var sum []byte
	var failed error
	err := stream(ctx, c, sources(), seq-1, func(e fact.Entry) bool {
		b, err := json.Marshal(e.Fact)
		h := sha256.Sum256(fmt.Appendf(b, " %d %T", e.Seq, e.Fact))
		sum, failed = h[:], err
		return false
	})
	if err = errors.Join(err, failed); err == nil && sum == nil {
		err = fmt.Errorf("the ledger has no fact %d any more", seq)
	}
	return sum, err
}

// keepImages makes the images and records them in one transaction. It runs between two batches, so that every fold has
// been given just what is durable.
func (w *writer) keepImages(ctx context.Context, l *Ledger, most int64) error {
	if w.seq == l.imaged.Load() {
		return nil
	}
	program, err := image.Program()
	if err != nil {
		return err
	}
	last, err := fingerprint(ctx, w.conn, w.seq)
	if err != nil {
		return err
	}
	var all []*picture
	size := int64(0)
	for _, f := range append([]Fold{looks(w)}, l.folds...) {
		var body bytes.Buffer
		z, err := flate.NewWriter(&body, flate.BestSpeed)
		if err != nil {
			return err
		}
		counted := &counter{w: z}
		err = f.Lend(func(state any) error { return image.Encode(counted, state, most) })
		size += counted.n
		if errors.Is(err, image.ErrTooLarge) {
			l.imaged.Store(w.seq) // not again before long
			l.imageBytes.Store(size)
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if err = errors.Join(err, z.Close()); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		all = append(all, &picture{name: f.Name, seq: w.seq, last: last, program: program[:], boot: l.opts.Clock.Now().Boot, body: body.Bytes()})
	}
	if err := w.begin.exec(ctx); err != nil {
		return err
	}
	for _, i := range all {
		// Deleted first, so that the new one takes its pages.
		if err = w.dropImage.exec(ctx, i.name); err == nil {
			err = w.addImage.exec(ctx, i.name, i.seq, i.last, i.program, i.boot, i.sum(), i.body)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = w.commit.exec(ctx)
	}
	if err != nil {
		_ = w.exec(ctx, "ROLLBACK")
		return err
	}
	l.imaged.Store(w.seq)
	l.imageBytes.Store(size)
	return nil
}

// counter counts what is written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return c.w.Write(b)
}

// blob gives a column of bytes.
func (r *rows) blob(i int) []byte {
	switch v := r.cols[i].(type) {
	case []byte:
		return bytes.Clone(v)
	case nil:
	default:
		r.wrong(i)
	}
	return nil
}
