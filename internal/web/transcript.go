package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/transcript"
)

const (
	// firstLines are shown when the page opens; chunkLines are fetched at a time while the reader scrolls.
	firstLines = 100
	chunkLines = 150
	// firstBytes and chunkBytes end a chunk early, because lines can have any length.
	firstBytes = 48 << 10
	chunkBytes = 256 << 10
	// lineBatch limits how many lines are read at once, for the same reason.
	lineBatch = 50
	// callReach is how many lines after a call its answer is still joined to it.
	callReach = 100
	// resultWindow is how many of the last lines are searched for the result, which need not be the last line.
	resultWindow = 50
	foundLines   = 100
)

// transcriptView is a piece of a transcript.
type transcriptView struct {
	Session ops.SessionID
	Count   int64
	Rows    []*entry
	First   int64  // number of the first line shown
	Last    int64  // number of the last line shown
	Earlier string // URL of the rows before; empty if there are none
	Later   string // URL of the rows after; empty if there are none
	Oldest  string // this and the next three: URLs of whole pages, for browsers without scripts
	Newest  string
	Before  string
	Behind  string
	AtEnd   bool // nothing is stored after the last line
	Find    string
	Found   int
	Capped  bool   // more lines match than are shown
	Removed string // why the output is gone
}

// resultView is the final message of the agent.
type resultView struct {
	Text     passage
	Error    bool
	Document bool // it is the structured outcome itself
}

// window selects lines.
type window struct {
	after  int64 // the line before the first one
	before int64 // the line after the last one, instead of after
	tail   bool  // the newest ones
	lines  int
	bytes  int
}

// transcriptWindow reads the selection from the URL.
func transcriptWindow(r *http.Request) (window, bool) {
	query := r.URL.Query()
	w := window{lines: firstLines, bytes: firstBytes}
	for name, to := range map[string]*int64{"after": &w.after, "before": &w.before} {
		given := query.Get(name)
		if given == "" {
			continue
		}
		value, err := strconv.ParseInt(given, 10, 64)
		if err != nil || value < 0 {
			return w, false
		}
		*to = value
	}
	w.tail = query.Get("end") != ""
	return w, true
}

// transcript reads one piece of output.
func (s *sessions) transcript(
	ctx context.Context, m moment, id ops.SessionID, want window, denied ops.Refusals,
) (transcriptView, error) {
	total, err := s.Store.Journal.TranscriptCount(ctx, id)
	if err != nil {
		return transcriptView{}, fmt.Errorf("count transcript: %w", err)
	}
	view := transcriptView{Session: id, Count: total}
	after, upTo := want.after, int64(0)
	switch {
	case want.before > 0:
		gap, err := s.Store.Journal.Gap(ctx, id)
		if err != nil {
			return view, fmt.Errorf("read dropped output: %w", err)
		}
		upTo = want.before
		if gap.From > 0 && upTo > gap.From && upTo <= gap.To+1 {
			upTo = gap.From + 1 // what is before it is the line that says what was dropped
		}
		after = max(0, upTo-1-int64(want.lines))
	case want.tail:
		after = max(0, total-int64(want.lines))
	}
	rows := s.entries(m, id, denied)
	if err := s.recallCalls(ctx, rows, id, after); err != nil {
		return view, err
	}
	last := after
	size := 0
	for n := 0; n < want.lines && size < want.bytes; {
		lines, err := s.Store.Journal.Transcript(ctx, id, last, min(lineBatch, want.lines-n))
		if err != nil {
			return view, fmt.Errorf("read transcript: %w", err)
		}
		for _, line := range lines {
			if upTo > 0 && line.Seq >= upTo || size >= want.bytes {
				n = want.lines
				break
			}
			fresh, _ := rows.add(line)
			for _, e := range fresh {
				size += len(e.Text.HTML)
			}
			view.Rows = append(view.Rows, fresh...)
			view.First = cmp.Or(view.First, line.Seq)
			last = line.Seq
			n++
		}
		if len(lines) < lineBatch {
			break
		}
	}
	view.Last = last
	view.AtEnd = last >= total
	if total > 0 && view.First == 0 && upTo == 0 && (after == 0 || want.tail) {
		view.Removed, view.AtEnd = s.removedText(ctx, id), true
	}
	view.link(id, after, want.lines)
	return view, s.awaitAnswers(ctx, rows, id, last)
}

// removedText explains why recorded output is gone.
func (s *sessions) removedText(ctx context.Context, id ops.SessionID) string {
	text := "Transcript removed by retention"
	// Without the record of the removal, the lines are gone all the same.
	if removed, err := s.Store.Journal.Removed(ctx, id); err == nil && removed.Transcript != nil {
		text += " on " + removed.Transcript.UTC().Format(time.DateOnly)
		session, err := s.Store.Journal.Session(ctx, id)
		if err == nil && session.EndedAt != nil && removed.Transcript.Sub(*session.EndedAt) < s.KeepTranscripts {
			return text + " (total size limit reached)."
		}
	}
	if days := int(s.KeepTranscripts / (24 * time.Hour)); days > 0 {
		return text + fmt.Sprintf(" (%s).", ops.Plural(days, "day", "days"))
	}
	return text + "."
}

// recallCalls reads the lines before a piece to find the calls that are answered in it.
func (s *sessions) recallCalls(ctx context.Context, rows *entries, id ops.SessionID, after int64) error {
	if after == 0 {
		return nil
	}
	lines, err := s.Store.Journal.Transcript(ctx, id, max(0, after-callReach), int(min(callReach, after)))
	if err != nil {
		return fmt.Errorf("read transcript before its piece: %w", err)
	}
	for _, line := range lines {
		if line.Seq <= after {
			rows.add(line)
		}
	}
	return nil
}

// awaitAnswers reads the lines after a piece to find the answers to its calls.
func (s *sessions) awaitAnswers(ctx context.Context, rows *entries, id ops.SessionID, last int64) error {
	for key, call := range rows.waiting {
		if call.Seq <= last-callReach {
			delete(rows.waiting, key) // the next piece does not look back that far and shows the answer as its own row
		}
	}
	if len(rows.waiting) == 0 {
		return nil
	}
	lines, err := s.Store.Journal.Transcript(ctx, id, last, callReach)
	if err != nil {
		return fmt.Errorf("read transcript after its piece: %w", err)
	}
	for _, line := range lines {
		rows.add(line)
		if len(rows.waiting) == 0 {
			break
		}
	}
	return nil
}

func (v *transcriptView) link(id ops.SessionID, after int64, lines int) {
	page, piece := fmt.Sprintf("/sessions/%d", id), fmt.Sprintf("/sessions/%d/transcript", id)
	if after > 0 {
		v.Earlier = fmt.Sprintf("%s?before=%d", piece, after+1)
		v.Oldest = page + "?after=0#transcript"
		v.Before = fmt.Sprintf("%s?after=%d#transcript", page, max(0, after-int64(lines)))
	}
	if !v.AtEnd {
		v.Later = fmt.Sprintf("%s?after=%d", piece, v.Last)
		v.Behind = fmt.Sprintf("%s?after=%d#transcript", page, v.Last)
		v.Newest = page + "?end=1#transcript"
	}
}

// transcriptPiece responds with more rows while the reader scrolls.
func (s *sessions) transcriptPiece(w http.ResponseWriter, r *http.Request) {
	id, ok := sessionID(r)
	want, readable := transcriptWindow(r)
	if !ok || !readable {
		s.errorPage(w, r, http.StatusNotFound, "No such part of a transcript.")
		return
	}
	want.lines, want.bytes = chunkLines, chunkBytes
	denied, err := s.refusals(r.Context(), id)
	if err != nil {
		s.fail(w, r, "transcript", err)
		return
	}
	view, err := s.transcript(r.Context(), moment{s.Clock()}, id, want, denied)
	if err != nil {
		s.fail(w, r, "transcript", err)
		return
	}
	if want.before > 0 {
		view.Later = "" // the following rows are on the page
	} else {
		view.Earlier = ""
	}
	s.renderPiece(w, r, "session", "rows", view)
}

// find shows the lines that contain a text.
func (s *sessions) find(ctx context.Context, m moment, id ops.SessionID, text string, denied ops.Refusals) (transcriptView, error) {
	view := transcriptView{Session: id, Find: text, AtEnd: true}
	var err error
	if view.Count, err = s.Store.Journal.TranscriptCount(ctx, id); err != nil {
		return view, fmt.Errorf("count transcript: %w", err)
	}
	lines, err := s.Store.Journal.FindLines(ctx, id, text, foundLines+1)
	if err != nil {
		return view, fmt.Errorf("search transcript: %w", err)
	}
	if view.Capped = len(lines) > foundLines; view.Capped {
		lines = lines[:foundLines]
	}
	view.Found = len(lines)
	rows := s.entries(m, id, denied)
	for _, line := range lines {
		fresh, _ := rows.add(line)
		view.Rows = append(view.Rows, fresh...)
		view.Last = line.Seq
	}
	for _, e := range view.Rows {
		e.Pending = false // its answer may be in a line that does not match
	}
	return view, nil
}

// refusals are the calls of a session that did not run.
func (s *sessions) refusals(ctx context.Context, id ops.SessionID) (ops.Refusals, error) {
	out, err := s.Store.Acts.Refusals(ctx, id)
	return ops.Returning(out, err, "read refusals")
}

// rawLine responds with a line as recorded, or with the full text of one part of it.
func (s *sessions) rawLine(w http.ResponseWriter, r *http.Request) {
	id, ok := sessionID(r)
	seq, err := strconv.ParseInt(r.PathValue("seq"), 10, 64)
	if !ok || err != nil || seq < 1 {
		s.errorPage(w, r, http.StatusNotFound, "No such line.")
		return
	}
	lines, err := s.Store.Journal.Transcript(r.Context(), id, seq-1, 1)
	if err == nil && (len(lines) == 0 || lines[0].Seq != seq) {
		err = ops.ErrNotFound
	}
	if err != nil {
		s.fail(w, r, "line", err)
		return
	}
	text := plain(lines[0].Text)
	if piece := r.PathValue("piece"); piece != "" {
		n, err := strconv.Atoi(piece)
		if text, ok = lineText(lines[0], n); err != nil || !ok {
			s.errorPage(w, r, http.StatusNotFound, "No such part of this line.")
			return
		}
		if r.Header.Get("HX-Request") != "" {
			s.renderPiece(w, r, "session", "whole", marked(strings.TrimRight(text, "\n")))
			return
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write([]byte(text + "\n")) // the client may have disconnected
}

// result finds the agent's final message near the end of its transcript.
func (s *sessions) result(ctx context.Context, m moment, id ops.SessionID, total int64) (*resultView, error) {
	lines, err := s.Store.Journal.Transcript(ctx, id, max(0, total-resultWindow), resultWindow)
	if err != nil {
		return nil, fmt.Errorf("read end of transcript: %w", err)
	}
	ended := false // without a message: the last one belongs to it
	for i := len(lines) - 1; i >= 0; i-- {
		parts := transcript.Read(lines[i].Text)
		for n := len(parts) - 1; n >= 0; n-- {
			p := parts[n]
			if p.Kind == transcript.Result && p.Text == "" {
				ended = true
				continue
			}
			if p.Kind == transcript.Result || ended && p.Kind == transcript.Text {
				p.Figures = transcript.Figures{}
				return &resultView{
					Text: s.entries(m, id, nil).passage(p, lines[i].Seq, n), Error: p.Failed, Document: isDocument(p.Text),
				}, nil
			}
		}
	}
	return nil, nil //nolint:nilnil // a session may have no result
}
