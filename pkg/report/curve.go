package report

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"amnesia/pkg/oracle"
	"amnesia/pkg/terminal"
)

// WriteCurves prints, of each fault that lost something, how likely a memory is lost to it so long after its
// acknowledgement, with the 95 % interval as a bar.
func WriteCurves(w io.Writer, curves []oracle.Curve) error {
	var b strings.Builder
	for _, c := range curves {
		fmt.Fprintf(&b, "\n%s of %s: P(lost | t after the acknowledgement), of the memories told in the same cycle\n\n", c.Kind, c.Service)
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "t up to\tlost\tkept\tP\t95 %\t\t0 %                    100 %\t")
		for _, p := range c.Points() {
			fmt.Fprintf(t, "%s\t%d\t%d\t%.2f\t%.2f to %.2f\t\t%s\t\n", p.Upto, p.Lost, p.Kept, p.P, p.Low, p.High, bar(p))
		}
		t.Flush()
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// bar draws a share with its interval.
func bar(p oracle.Point) string {
	const wide = 30
	at := func(f float64) int { return min(int(f*wide), wide-1) }
	line := []rune(strings.Repeat("·", wide))
	for i := at(p.Low); i <= at(p.High); i++ {
		line[i] = '─'
	}
	line[at(p.P)] = '█'
	return string(line)
}

// The size of the picture.
const curveWide, curveHigh = 8 * vg.Inch, 4.5 * vg.Inch

// DrawCurves draws the curves as an SVG picture: a line for each fault, with its 95 % band.
func DrawCurves(w io.Writer, title string, curves []oracle.Curve) error {
	return drawCurves(w, title, color.White, curves)
}

// drawCurves draws on a ground; nil: on that of the page around it.
func drawCurves(w io.Writer, title string, ground color.Color, curves []oracle.Curve) error {
	const alpha = 60
	p := plot.New()
	p.BackgroundColor = ground
	p.Title.Text = terminal.Line(title) // XML has no control characters either
	p.X.Label.Text = "time from the acknowledgement to the fault"
	p.Y.Label.Text = "share of memories lost"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.TickerFunc(durations)
	p.Y.Min, p.Y.Max = 0, 1
	// Below the curves, which fall, and with room for words that another font makes larger.
	p.Legend.Left, p.Legend.XOffs, p.Legend.YOffs, p.Legend.Padding = true, vg.Points(8), vg.Points(8), vg.Points(2)
	p.Add(plotter.NewGrid())
	for i, c := range curves {
		points := c.Points()
		line, band := make(plotter.XYs, len(points)), make(plotter.XYs, 2*len(points))
		for n, at := range points {
			x := float64(at.Upto)
			line[n] = plotter.XY{X: x, Y: at.P}
			band[n], band[len(band)-1-n] = plotter.XY{X: x, Y: at.Low}, plotter.XY{X: x, Y: at.High}
		}
		shade, err := plotter.NewPolygon(band)
		if err != nil {
			return fmt.Errorf("drawing the curve of %s: %w", c.Kind, err)
		}
		curve, dots, err := plotter.NewLinePoints(line)
		if err != nil {
			return fmt.Errorf("drawing the curve of %s: %w", c.Kind, err)
		}
		rgb := colours[i%len(colours)]
		curve.Color, dots.Color, dots.Shape = rgb, rgb, draw.CircleGlyph{}
		shade.Color, shade.LineStyle.Width = color.NRGBA{rgb.R, rgb.G, rgb.B, alpha}, 0
		p.Add(shade, curve, dots)
		p.Legend.Add(terminal.Line(fmt.Sprintf("%s of %s", c.Kind, c.Service)), curve, dots)
	}
	canvas := vgsvg.New(curveWide, curveHigh)
	p.Draw(draw.New(canvas))
	_, err := canvas.WriteTo(w)
	return err
}

// colours can be told apart by people who see few of them (Okabe and Ito 2008).
var colours = []color.NRGBA{{213, 94, 0, 255}, {0, 114, 178, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {230, 159, 0, 255}, {86, 180, 233, 255}}

// durations marks an axis in nanoseconds at each power of ten.
func durations(low, high float64) (ticks []plot.Tick) {
	for at := math.Pow(10, math.Floor(math.Log10(low))); at <= high*10; at *= 10 {
		if at >= low && at <= high {
			ticks = append(ticks, plot.Tick{Value: at, Label: time.Duration(at).String()})
		}
	}
	return ticks
}

// DrawCurvesInline draws the curves as a picture to be put into a page (an svg element), in the colours of its text and on its ground.
func DrawCurvesInline(w io.Writer, curves []oracle.Curve) error {
	var b bytes.Buffer
	if err := drawCurves(&b, "", nil, curves); err != nil {
		return err
	}
	drawn := b.String()
	drawn = drawn[strings.Index(drawn, "<svg"):]
	_, drawn, _ = strings.Cut(drawn, ">") // its own size, and names that a page has no need of
	var said []string
	for _, c := range curves {
		said = append(said, fmt.Sprintf("%s of %s: %s", c.Kind, c.Service, curveWords(c)))
	}
	_, err := fmt.Fprintf(w, `<svg viewBox="0 0 %g %g" role="img" aria-labelledby="curve-title curve-desc" fill="currentColor">`+
		"\n<title id=\"curve-title\">Share of memories lost, by the time from the acknowledgement to the fault</title>\n<desc id=\"curve-desc\">%s</desc>%s",
		curveWide.Points(), curveHigh.Points(), escaped(strings.Join(said, "; ")), strings.ReplaceAll(drawn, "#000000", "currentColor"))
	return err
}

// curveWords says in a line how a curve goes.
func curveWords(c oracle.Curve) string {
	var parts []string
	for _, p := range c.Points() {
		parts = append(parts, fmt.Sprintf("%.0f %% up to %s", 100*p.P, p.Upto))
	}
	return strings.Join(parts, ", ")
}
