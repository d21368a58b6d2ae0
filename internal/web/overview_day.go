package web

import (
	"context"
	"fmt"
	"sync"
	"time"

	"claudeops/internal/store"
)

const (
	hoursShown  = 24
	sparkHeight = 36 // of the bars
	sparkFoot   = 2  // of an hour without a cycle
	sparkLabels = 18
)

// hourly is how the cycles of one hour ended.
type hourly struct {
	well, trouble, asked int
}

func (h hourly) all() int { return h.well + h.trouble + h.asked }

// dayCache keeps how the cycles of the last hours ended. Past hours do not change, so only the newest is read again.
type dayCache struct {
	mu    sync.Mutex
	ended string // end of the last cycle, from the counters
	from  time.Time
	hours map[time.Time]hourly
}

// upTo returns the hours since a full hour.
func (c *dayCache) upTo(ctx context.Context, s *store.Store, since time.Time, ended string) (map[time.Time]hourly, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hours != nil && c.ended == ended {
		return c.hours, nil
	}
	from := since
	if c.hours != nil && c.from.After(since) {
		from = c.from.Add(-time.Hour) // a cycle of the last hour may have been written after it was read
	}
	counts, err := s.CyclesPerHour(ctx, from)
	if err != nil {
		return nil, err
	}
	hours := map[time.Time]hourly{}
	for at, h := range c.hours {
		if !at.Before(since) && at.Before(from) {
			hours[at] = h
		}
	}
	newest := since
	for _, n := range counts {
		h := hours[n.Hour]
		switch cycleBadge(n.Status).Tone {
		case "ok":
			h.well += n.Cycles
		case "hand":
			h.asked += n.Cycles
		default:
			h.trouble += n.Cycles
		}
		hours[n.Hour] = h
		if n.Hour.After(newest) {
			newest = n.Hour
		}
	}
	c.ended, c.from, c.hours = ended, newest, hours
	return hours, nil
}

// dayPicture draws how the cycles of the last 24 hours ended; nil if there were none.
func (m moment) dayPicture(hours map[time.Time]hourly, first time.Time) *picture {
	most := 0
	var total hourly
	for i := range hoursShown {
		h := hours[first.Add(time.Duration(i)*time.Hour)]
		most = max(most, h.all())
		total = hourly{total.well + h.well, total.trouble + h.trouble, total.asked + h.asked}
	}
	sum := total.all()
	if sum == 0 {
		return nil
	}
	title := fmt.Sprintf("%s in the last %d hours, by hour and result", plural(sum, "cycle", "cycles"), hoursShown)
	p := &picture{ID: "day", Title: title, Head: []string{"From", "Ended well", "Without a repair", "Needed a person"}}
	var d drawing
	width := 100 / float64(hoursShown)
	for i := range hoursShown {
		at := first.Add(time.Duration(i) * time.Hour)
		h := hours[at]
		x, y := pc(float64(i)*width+width*0.12), float64(sparkHeight-sparkFoot)
		label := fmt.Sprintf("%s: %s", m.stamp(at).Text, plural(h.all(), "cycle", "cycles"))
		if h.all() == 0 {
			d.rect(x, px(y), pc(width*0.76), px(sparkFoot), "health-bar tone-unknown", label)
			continue
		}
		label += fmt.Sprintf(", %d ended well, %d without a repair, %d needed a person", h.well, h.trouble, h.asked)
		for _, part := range []struct {
			n    int
			tone string
		}{{h.well, "ok"}, {h.trouble, "warn"}, {h.asked, "hand"}} {
			if part.n == 0 {
				continue
			}
			height := max(3, float64(sparkHeight-sparkFoot)*float64(part.n)/float64(most))
			y -= height
			d.rect(x, px(round(max(0, y+sparkFoot))), pc(width*0.76), px(round(height)), "health-bar tone-"+part.tone, label)
		}
		p.Rows = append(p.Rows, []string{m.stamp(at).Text, thousands(int64(h.well)), thousands(int64(h.trouble)), thousands(int64(h.asked))})
	}
	d.text("0", px(sparkHeight+sparkLabels-4), "start", "chart-text", m.stamp(first).Text)
	d.text("100%", px(sparkHeight+sparkLabels-4), "end", "chart-text", "now")
	p.SVG = d.svg(sparkHeight+sparkLabels, title)
	p.Note = fmt.Sprintf("%s: %d ended well, %d without a repair, %d needed a person", plural(sum, "cycle", "cycles"),
		total.well, total.trouble, total.asked)
	return p
}

// addDay adds the picture of the last 24 hours. Hours are those of UTC, as they are counted.
func (s *server) addDay(ctx context.Context, m moment, view *overviewView, ended string) error {
	first := m.now.UTC().Truncate(time.Hour).Add(-(hoursShown - 1) * time.Hour)
	hours, err := s.day.upTo(ctx, s.Store, first, ended)
	if err != nil {
		return err
	}
	view.Day = m.dayPicture(hours, first)
	return nil
}
