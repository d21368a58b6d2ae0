package web

import (
	"math"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func TestTicksAreRoundAndFew(t *testing.T) {
	for top, want := range map[float64]float64{0: 1, 0.004: 0.001, 0.9: 0.2, 1: 0.2, 1.2: 0.25, 3.15: 1, 5.2: 2, 42: 10, 100: 20, 1234: 250} {
		got := tick(top)
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("tick of %v is %v, want %v", top, got, want)
		}
		if parts := math.Ceil(top / got); top > 0 && (parts < 2 || parts > 6) {
			t.Errorf("%v is divided into %v parts", top, parts)
		}
	}
}

func TestStackedBarsStayInTheirPicture(t *testing.T) {
	begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	days := []time.Time{begin, begin.AddDate(0, 0, 1), begin.AddDate(0, 0, 2)}
	p := stackedBars("id", `Cost of "<all>"`, days, []series{
		{Name: "Tier 1", Class: "stack-1", USD: []*float64{ops.Ptr(1.0), nil, ops.Ptr(0.0)}},
		{Name: "<b>", Class: "stack-2", USD: []*float64{ops.Ptr(3.0), nil, ops.Ptr(0.5)}},
	})
	svg := string(p.SVG)
	if got := strings.Count(svg, "<rect"); got != 3 {
		t.Errorf("%d parts are drawn, want 3", got)
	}
	for _, bad := range []string{"<b>", `"<all>"`, "NaN", "Inf", "style=", `height="-`, `y="-`} {
		if strings.Contains(svg, bad) {
			t.Errorf("the drawing contains %q", bad)
		}
	}
	// The highest bar fills the picture: $3 of it stand between the line of $4 and that of $1.
	for _, want := range []string{`y="10" `, "1 Nov, Tier 1: $1.00", "&lt;b&gt;", "<title>Cost of", ">$4<", ">$0<", "3 Nov"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the drawing does not contain %q\n%s", want, svg)
		}
	}
	want := [][]string{{"2026-11-03", "$0.00", "$0.50"}, {"2026-11-02", "–", "–"}, {"2026-11-01", "$1.00", "$3.00"}}
	for i, row := range want {
		if strings.Join(p.Rows[i], "|") != strings.Join(row, "|") {
			t.Errorf("row %d is %v, want %v", i, p.Rows[i], row)
		}
	}
}

func TestADrawingWithoutCostsIsStillADrawing(t *testing.T) {
	svg := string(stackedBars("id", "Costs", []time.Time{time.Unix(0, 0)}, nil).SVG)
	if strings.Contains(svg, "NaN") || !strings.Contains(svg, ">$0<") {
		t.Errorf("drew %s", svg)
	}
}
