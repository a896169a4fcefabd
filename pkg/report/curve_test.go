package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"amnesia/pkg/oracle"
)

func someCurves() []oracle.Curve {
	ms := func(n int, lost bool) oracle.Trial {
		return oracle.Trial{Injection: int64(n), Exposure: time.Duration(n) * time.Millisecond, Lost: lost}
	}
	return []oracle.Curve{
		{FaultKey: oracle.FaultKey{Kind: "kill", Service: "app"}, Trials: []oracle.Trial{ms(3, true), ms(50, true), ms(60, false), ms(200, false)}},
		{FaultKey: oracle.FaultKey{Kind: "restart", Service: "<redis>"}, Trials: []oracle.Trial{ms(1, true)}},
	}
}

func TestWriteCurves(t *testing.T) {
	var b bytes.Buffer
	if err := WriteCurves(&b, someCurves()); err != nil {
		t.Fatal(err)
	}
	golden(t, "curves.txt", b.Bytes())
}

// The picture is an SVG that can be read, with each fault by its name.
func TestDrawCurves(t *testing.T) {
	var b bytes.Buffer
	if err := DrawCurves(&b, "a target", someCurves()); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	shapes := 0
	d := xml.NewDecoder(&b)
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch x := token.(type) {
		case xml.CharData:
			said.Write(x)
		case xml.StartElement:
			if x.Name.Local == "path" {
				shapes++
			}
		}
	}
	for _, want := range []string{"a target", "kill of app", "restart of <redis>", "share of memories lost", "100ms"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("the picture does not say %q:\n%s", want, said.String())
		}
	}
	if shapes < 4 {
		t.Errorf("%d shapes are no two curves with their bands", shapes)
	}
}

// In a page the picture takes the colours of the page: what is black or white of its own cannot be read in one of its schemes.
func TestDrawCurvesInline(t *testing.T) {
	var inline, file bytes.Buffer
	if err := DrawCurvesInline(&inline, someCurves()); err != nil {
		t.Fatal(err)
	}
	if err := DrawCurves(&file, "a target", someCurves()); err != nil {
		t.Fatal(err)
	}
	ofItsOwn := regexp.MustCompile(`(?i)#(000000|ffffff)\b|\b(black|white)\b`)
	if own := ofItsOwn.FindAllString(inline.String(), -1); len(own) > 0 {
		t.Errorf("in a page the picture has %q", own)
	}
	if own := ofItsOwn.FindAllString(file.String(), -1); !slices.Contains(own, "#FFFFFF") {
		t.Errorf("as a file it has no ground: %q", own)
	}
}
