package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"claudeops/internal/ops"
)

const (
	linesPerPage = 500
	// pageBytes ends a page early: lines have any length, and a browser has to hold the page.
	pageBytes = 1 << 20
	// lineBatch bounds how much is read at once for the same reason.
	lineBatch = 100
	// resultWindow is how far from its end a transcript is searched for the result, which need not be the last line.
	resultWindow = 50
)

type transcriptView struct {
	Count    int64
	Rows     []lineView
	First    int64 // number of the first line shown
	Last     int64
	Oldest   string // addresses of other pages; empty where there is none
	Older    string
	Newer    string
	Newest   string
	LongPage bool
}

// lineView is one line of output in a readable form, with the line itself beside it.
type lineView struct {
	Seq   int64
	At    stamp
	Parts []part
	Raw   string
}

// resultView is what the agent said at its end.
type resultView struct {
	Text  string
	Error bool
}

func transcriptStart(r *http.Request) (int64, bool) {
	given := r.URL.Query().Get("after")
	if given == "" {
		return 0, true
	}
	after, err := strconv.ParseInt(given, 10, 64)
	return after, err == nil && after >= 0
}

func transcriptPath(id ops.SessionID, after int64) string {
	if after <= 0 {
		return fmt.Sprintf("/sessions/%d", id)
	}
	return fmt.Sprintf("/sessions/%d?after=%d", id, after)
}

// transcript reads one page of output, beginning behind the line numbered after.
func (s *server) transcript(ctx context.Context, m moment, id ops.SessionID, after int64) (transcriptView, error) {
	total, err := s.Store.TranscriptCount(ctx, id)
	if err != nil {
		return transcriptView{}, fmt.Errorf("count transcript: %w", err)
	}
	view := transcriptView{Count: total}
	size, next := 0, after
	for len(view.Rows) < linesPerPage && size < pageBytes {
		lines, err := s.Store.Transcript(ctx, id, next, min(lineBatch, linesPerPage-len(view.Rows)))
		if err != nil {
			return view, fmt.Errorf("read transcript: %w", err)
		}
		for _, line := range lines {
			if size > 0 && size+len(line.Text) > pageBytes {
				size, view.LongPage = pageBytes, true
				break
			}
			size += len(line.Text)
			next = line.Seq
			view.Rows = append(view.Rows, m.line(line))
		}
		if len(lines) < lineBatch {
			break
		}
	}
	view.link(id, after, next)
	return view, nil
}

func (v *transcriptView) link(id ops.SessionID, after, next int64) {
	if len(v.Rows) > 0 {
		v.First, v.Last = v.Rows[0].Seq, v.Rows[len(v.Rows)-1].Seq
	}
	newest := max(0, v.Count-linesPerPage)
	if after > 0 {
		v.Oldest = transcriptPath(id, 0) + "#transcript"
		v.Older = transcriptPath(id, max(0, after-linesPerPage)) + "#transcript"
	}
	if len(v.Rows) > 0 && next < v.Count {
		v.Newer = transcriptPath(id, next) + "#transcript"
		v.Newest = transcriptPath(id, max(newest, next)) + "#transcript"
	}
}

func (m moment) line(l ops.Line) lineView {
	raw, cut := clip(plain(l.Text), rawLimit)
	if cut {
		raw += fmt.Sprintf(" … cut here, the line has %s", bytesText(len(l.Text)))
	}
	return lineView{Seq: l.Seq, At: m.precise(l.At), Parts: decodeLine(l.Text), Raw: raw}
}

// result finds the agent's last words near the end of its transcript.
func (s *server) result(ctx context.Context, id ops.SessionID, total int64) (*resultView, error) {
	lines, err := s.Store.Transcript(ctx, id, max(0, total-resultWindow), resultWindow)
	if err != nil {
		return nil, fmt.Errorf("read end of transcript: %w", err)
	}
	for i := len(lines) - 1; i >= 0; i-- {
		if event, ok := decodeEvent(lines[i].Text); ok && event.Type == "result" {
			return &resultView{Text: shorten(event.lastWords()), Error: event.IsError}, nil
		}
	}
	return nil, nil //nolint:nilnil // a session without a result is no error
}
