package web

import (
	"fmt"
	"math"
	"strings"
	"time"

	"claudeops/internal/store"
)

// timesPlot draws how fast a service answered: half of its checks and 95 % of them took at most so long. It is nil without results.
func (m moment) timesPlot(id, name string, over healthRange, buckets []store.TimesBucket) *picture {
	top := 0.0
	for _, b := range buckets {
		top = max(top, milliseconds(b.P95))
	}
	checks := int64(0)
	p := &picture{
		ID: id, Title: fmt.Sprintf("Response time of %s in the last %s", name, over.Word), Bars: true,
		Head: []string{"From", "To", "p50", "p95", "Checks"},
	}
	for _, b := range buckets {
		checks += b.Checks
		p.At = append(p.At, []stamp{m.stamp(b.From), m.stamp(b.Until)})
		row := []string{"–", "–", "0"}
		if b.Checks > 0 {
			row = []string{span(b.P50), span(b.P95), thousands(b.Checks)}
		}
		p.Rows = append(p.Rows, row)
	}
	if checks == 0 {
		return nil
	}
	p.Note = "Failed checks are not counted. Several probes are taken together."
	m.drawTimes(p, over, buckets, top)
	return p
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (m moment) drawTimes(p *picture, over healthRange, buckets []store.TimesBucket, top float64) {
	step := tick(max(1, top))
	limit := step * math.Max(1, math.Ceil(top/step))
	const plot = chartHeight - chartTop - chartFoot
	y := func(ms float64) float64 { return round(chartTop + plot*(1-ms/limit)) }
	var d, amounts drawing
	for ms := 0.0; ms <= limit+step/2; ms += step {
		d.line("0", px(y(ms)), "100%", px(y(ms)), "chart-line")
		amounts.text(px(chartLeft-8), px(y(ms)+4), "end", "chart-text", msText(ms))
	}
	width := 100 / float64(len(buckets))
	d.timesLine(buckets, "times-50", func(b store.TimesBucket) float64 { return y(milliseconds(b.P50)) })
	d.timesLine(buckets, "times-95", func(b store.TimesBucket) float64 { return y(milliseconds(b.P95)) })
	every := max(1, (len(buckets)+5)/6)
	for i, b := range buckets {
		text := "no results"
		if b.Checks > 0 {
			text = fmt.Sprintf("p50 %s, p95 %s, %s", span(b.P50), span(b.P95), plural(int(b.Checks), "check", "checks"))
		}
		d.column(pc(float64(i)*width), px(chartTop), pc(width), px(plot), "column", m.stamp(b.From), m.stamp(b.Until), text, "")
		labelled := i%every == every/2
		if days := over.Bucket > time.Hour; days && over.Bucket < 24*time.Hour {
			labelled = b.From.Hour() == 0
		}
		if labelled {
			class := "chart-text"
			if i/every%2 == 1 {
				class += " chart-optional" // hidden on narrow screens
			}
			d.time(pc(float64(i)*width+width/2), px(chartHeight-6), "middle", class, b.From, over.Bucket > time.Hour)
		}
	}
	p.SVG = amounts.axis(chartLeft, chartHeight) + d.svg(chartHeight, p.Title)
}

// msText is a number of milliseconds on the axis.
func msText(ms float64) string {
	if ms >= 1000 {
		return fmt.Sprintf("%g s", round(ms/1000))
	}
	return fmt.Sprintf("%g ms", round(ms))
}

// timesLine draws a line through the buckets that have results, and a dot where a neighbour is missing. Lines need numbers, so they
// are in a drawing of their own that is stretched.
func (d *drawing) timesLine(buckets []store.TimesBucket, class string, y func(store.TimesBucket) float64) {
	const wide = 1000.0
	width := wide / float64(len(buckets))
	var path, dots strings.Builder
	for i, b := range buckets {
		if b.Checks == 0 {
			continue
		}
		before, after := i > 0 && buckets[i-1].Checks > 0, i+1 < len(buckets) && buckets[i+1].Checks > 0
		command := "M"
		if before {
			command = "L"
		}
		fmt.Fprintf(&path, "%s%s %s", command, px(round((float64(i)+0.5)*width)), px(y(b)))
		if !before && !after {
			fmt.Fprintf(&dots, `<circle class="times-dot %s" cx="%s" cy="%s" r="3"/>`, class, pc((float64(i)+0.5)*width/wide*100), px(y(b)))
		}
	}
	fmt.Fprintf(&d.body, `<svg width="100%%" height="%d" viewBox="0 0 1000 %d" preserveAspectRatio="none">`+
		`<path class="times-line %s" d="%s"/></svg>%s`, chartHeight, chartHeight, class, path.String(), dots.String())
}
