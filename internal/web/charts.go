package web

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const (
	barHeight   = 28 // of a health bar
	chartHeight = 190
	chartTop    = 10
	chartFoot   = 22 // for the days
	chartLeft   = 44 // for the amounts, in a separate drawing of fixed width
	chartPlot   = chartHeight - chartTop - chartFoot
)

// fewest is how many points a chart has at least.
const fewest = 10

// healthBar draws the worst state of a service per bucket, from the first that has results; nil: there are too few for a picture. All bars
// have the same height: colour and pattern show the state, and an outage is the strongest mark. errors are the last error of each bucket.
func (m moment) healthBar(id string, over healthRange, h store.ServiceHealth, errors []string) *picture {
	title := fmt.Sprintf("Health of %s in the last %s", plain(h.Service), over.Word)
	first := slices.IndexFunc(h.Buckets, func(b store.HealthBucket) bool { return b.Checks() > 0 })
	if first < 0 || len(h.Buckets)-first < fewest {
		return nil
	}
	h.Buckets, errors = h.Buckets[first:], errors[first:]
	p := &picture{ID: id, Title: title, Bars: true, From: m.maybe(&h.Buckets[0].From)}
	var d drawing
	width := 100 / float64(len(h.Buckets))
	for i, b := range h.Buckets {
		found := healthBadge(b.Worst())
		label := "not checked"
		if b.Checks() > 0 {
			label = found.Word + ", " + ops.Plural(b.Checks(), "check", "checks")
		}
		if errors[i] != "" {
			label += ", " + errors[i]
		}
		class, attributes := "health-bar tone-"+found.Tone, ""
		if found.Tone == "warn" {
			attributes = ` fill="url(#hatch-warn)"`
		}
		drawn := bar{pc(float64(i)*width + width*0.07), "0", pc(width * 0.86), px(barHeight), class, label, attributes}
		d.column(drawn, m.stamp(b.From), m.stamp(b.Until))
	}
	p.SVG = d.svg(barHeight, title)
	return p
}

// bucketErrors returns the last error in each bucket. A failure that goes on is kept as few results, so a bad bucket without an error
// of its own has that of the one before. Results are given newest first.
func bucketErrors(h store.ServiceHealth, bad []ops.Check) []string {
	out := make([]string, len(h.Buckets))
	last := map[ops.Health]string{}
	for i, b := range h.Buckets {
		for len(bad) > 0 && bad[len(bad)-1].At.Before(b.Until) {
			c := bad[len(bad)-1]
			last[c.Status] = firstLine(c.Error, 160)
			bad = bad[:len(bad)-1]
		}
		if worst := b.Worst(); worst == ops.Down || worst == ops.Degraded {
			out[i] = last[worst]
		}
	}
	return out
}

// series is the cost of one group per day. A day without a cost is nil.
type series struct {
	Name  string
	Class string
	USD   []*float64
	Total *float64
}

// Swatch is the colour sample of a series in the legend.
func (s series) Swatch() picture {
	var d drawing
	d.rect(bar{"0", "0", "100%", "100%", "stack " + s.Class, "", ""})
	return picture{SVG: d.svg(12, s.Name)}
}

// stackedBars draws one bar per day, stacked from the series. Each series has its own colour and pattern.
func stackedBars(id, title string, days []time.Time, all []series) picture {
	p := picture{ID: id, Title: title, Head: []string{"Day"}}
	top := 0.0
	for i := range days {
		top = max(top, stackHeight(all, i))
	}
	var d drawing
	y, amounts := d.grid(top, axis)
	width := 100 / float64(max(1, len(days)))
	every := max(1, (len(days)+7)/8)
	for i, day := range days {
		x := float64(i) * width
		base := 0.0
		for _, s := range all {
			if s.USD[i] == nil || *s.USD[i] <= 0 {
				continue
			}
			from, to := y(base), y(base+*s.USD[i])
			label := fmt.Sprintf("%s, %s: %s", day.Format("2 Jan"), s.Name, dollars(s.USD[i]).Text)
			d.rect(bar{pc(x + width*0.14), px(round(to)), pc(width * 0.72), px(round(max(1, from-to))), "stack " + s.Class, label, ""})
			base += *s.USD[i]
		}
		if i%every == (len(days)-1)%every {
			class := "chart-text"
			if (len(days)-1-i)/every%2 == 1 {
				class += " chart-optional" // hidden on narrow screens
			}
			at, anchor := pc(x+width/2), "middle"
			if i == len(days)-1 {
				at, anchor = "100%", "end" // keep the last label inside the chart
			}
			d.text(at, px(chartHeight-6), anchor, class, day.Format("2 Jan"))
		}
	}
	p.SVG = amounts + d.svg(chartHeight, title)
	for _, s := range all {
		p.Head = append(p.Head, s.Name)
	}
	for i, day := range slices.Backward(days) {
		row := []string{day.Format("2006-01-02")}
		for _, s := range all {
			row = append(row, cell(s.USD[i]))
		}
		p.Rows = append(p.Rows, row)
	}
	return p
}

// grid draws the lines of a chart up to a value. It returns where a value is, and the amounts beside the lines.
func (d *drawing) grid(top float64, word func(value, step float64) string) (y func(float64) float64, amounts template.HTML) {
	step := tick(top)
	limit := step * math.Max(1, math.Ceil(top/step))
	y = func(value float64) float64 { return chartTop + chartPlot*(1-value/limit) }
	var beside drawing
	for value := 0.0; value <= limit+step/2; value += step {
		at := round(y(value))
		d.line("0", px(at), "100%", px(at), "chart-line")
		beside.text(px(chartLeft-8), px(at+4), "end", "chart-text", word(value, step))
	}
	return y, beside.axis(chartLeft, chartHeight)
}

// cell is a cost in the table of days.
func cell(usd *float64) string {
	if usd == nil {
		return "–"
	}
	return dollars(usd).Text
}

func stackHeight(all []series, day int) float64 {
	sum := 0.0
	for _, s := range all {
		if s.USD[day] != nil {
			sum += *s.USD[day]
		}
	}
	return sum
}

// tick is a round step that divides the axis into two to five parts.
func tick(top float64) float64 {
	if top <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(top)))
	for _, factor := range []float64{0.2, 0.25, 0.5, 1, 2} {
		if top/(power*factor) <= 5 {
			return power * factor
		}
	}
	return power * 2
}

// axis is the label of an amount on the axis, with as many decimals as the step needs.
func axis(usd, step float64) string {
	decimals := 2
	switch {
	case step >= 1:
		decimals = 0
	case step < 0.01:
		decimals = 4
	}
	return fmt.Sprintf("$%.*f", decimals, usd)
}

func round(v float64) float64 { return math.Round(v*10) / 10 }

// timesPlot draws how fast a service answered: half of its checks and 95 % of them took at most so long. It is nil with too few results.
func (m moment) timesPlot(id, name string, over healthRange, buckets []store.TimesBucket) *picture {
	top := 0.0
	for _, b := range buckets {
		top = max(top, milliseconds(b.P95))
	}
	first, points := -1, 0
	p := &picture{ID: id, Title: fmt.Sprintf("Response time of %s in the last %s", name, over.Word), Bars: true}
	for i, b := range buckets {
		if b.Checks == 0 {
			continue
		}
		if points++; first < 0 {
			first = i
		}
	}
	if points < fewest {
		return nil
	}
	buckets = buckets[first:]
	p.Note = "Failed checks are not counted. Several probes are taken together."
	m.drawTimes(p, over, buckets, top)
	return p
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (m moment) drawTimes(p *picture, over healthRange, buckets []store.TimesBucket, top float64) {
	var d drawing
	y, amounts := d.grid(max(1, top), func(ms, _ float64) string { return msText(ms) })
	width := 100 / float64(len(buckets))
	d.timesLine(buckets, "times-50", func(b store.TimesBucket) float64 { return round(y(milliseconds(b.P50))) })
	d.timesLine(buckets, "times-95", func(b store.TimesBucket) float64 { return round(y(milliseconds(b.P95))) })
	every := max(1, (len(buckets)+5)/6)
	for i, b := range buckets {
		text := "no results"
		if b.Checks > 0 {
			text = fmt.Sprintf("p50 %s, p95 %s, %s", span(b.P50), span(b.P95), ops.Plural(int(b.Checks), "check", "checks"))
		}
		d.column(bar{pc(float64(i) * width), px(chartTop), pc(width), px(chartPlot), "column", text, ""}, m.stamp(b.From), m.stamp(b.Until))
		labelled := i%every == every/2
		if days := over.Bucket > time.Hour; days && over.Bucket < 24*time.Hour {
			labelled = b.From.Hour() == 0
		}
		if labelled {
			class := "chart-text"
			if i/every%2 == 1 {
				class += " chart-optional" // hidden on narrow screens
			}
			d.time(pc(float64(i)*width+width/2), class, b.From, over.Bucket > time.Hour)
		}
	}
	p.SVG = amounts + d.svg(chartHeight, p.Title)
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
