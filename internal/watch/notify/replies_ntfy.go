package notify

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"claudeops/internal/notice/answer"
)

const (
	// silentFor is how long a stream may be silent; ntfy sends a sign of life every 45 seconds.
	silentFor = 3 * time.Minute
	// longestLine is what is read of one message.
	longestLine = 64 << 10
)

// topicReader reads the answers at one topic.
type topicReader struct {
	*Replies
	base    string
	topic   string
	key     []byte
	targets []NtfyTarget
}

// mark names how far the topic was read. The name of the topic is a secret.
func (t *topicReader) mark() string {
	return "ntfy/" + NtfyTarget{Base: t.base, Topic: t.topic}.digest()
}

// read follows the topic until the connection ends. The server keeps messages for some hours, so what came meanwhile is read afterwards.
func (t *topicReader) read(ctx context.Context) error {
	since, err := t.Store.ReplyMark(ctx, t.mark())
	if err != nil {
		return err
	}
	if since == "" {
		since = "all"
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(silentFor, func() { cancel(fmt.Errorf("ntfy was silent for %s", silentFor)) })
	defer watchdog.Stop()
	_, host, _ := strings.Cut(t.base, "://")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.base+"/"+t.topic+"/json?since="+url.QueryEscape(since), nil)
	if err != nil {
		return fmt.Errorf("make request: %w", inner(err))
	}
	for name, values := range t.targets[0].header() {
		req.Header[name] = values
	}
	resp, err := newClient(t.HTTPClient).Do(req)
	if err != nil {
		return fmt.Errorf("reach ntfy at %s: %w", host, inner(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("ntfy at %s answered HTTP %d %s for the topic of answers", host, resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	lines := bufio.NewReaderSize(resp.Body, longestLine)
	for {
		text, whole, err := readLine(lines)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return fmt.Errorf("read answers from ntfy at %s: %w", host, inner(err))
		}
		watchdog.Reset(silentFor)
		var e ntfyEvent
		if !whole || json.Unmarshal(text, &e) != nil || e.Event != "message" {
			continue
		}
		if err := t.message(ctx, e); err != nil {
			return err
		}
	}
}

// readLine reads a line. Of one that is too long it reads to the end and reports that it is not whole.
func readLine(r *bufio.Reader) (text []byte, whole bool, err error) {
	text, more, err := r.ReadLine()
	whole = !more
	for more && err == nil {
		_, more, err = r.ReadLine()
	}
	return text, whole, err
}

// message takes one answer.
func (t *topicReader) message(ctx context.Context, e ntfyEvent) error {
	reply := answer.Reply{Channel: "ntfy", By: "somebody"}
	if isWord(e.ID) { // an id of another form could not be stored
		reply.Source, reply.Mark, reply.Read = t.mark()+"/"+e.ID, t.mark(), e.ID
	}
	t.verify(t.key, strings.TrimSpace(e.Message), &reply)
	to := t.targets[0]
	if i := slices.IndexFunc(t.targets, func(o NtfyTarget) bool { return o.recipient() == reply.Token.Recipient }); i >= 0 {
		to = t.targets[i]
		reply.By = to.name()
	} else if reply.Refused == "" {
		reply.Refused = "the answer was sent to another target"
	}
	if reply.Refused == "" && reply.Token.Decision == answer.Approve && !t.ApproveByNtfy {
		reply.Refused = "approving by ntfy is off (notify.approve_by_ntfy); approve on the page"
	}
	result, err := t.take(ctx, reply)
	if err != nil {
		return err
	}
	if result.Repeated || reply.Token.Subject.Kind == "" && !t.told.take(t.Clock()) {
		return nil // strangers cannot fill the topic
	}
	ctx, cancel := limited(ctx)
	defer cancel()
	sequence := ""
	if reply.Token.Subject.Kind != "" && strings.HasPrefix(e.Title, namePrefix) && isWord(e.Title) { // only what was sent with a button
		sequence = e.Title
	}
	if err := t.ntfy(to).say(ctx, sequence, "Claude Ops: your answer", result.Text); err != nil && !errors.Is(err, context.Canceled) {
		t.Logger.DebugContext(ctx, "cannot reply by ntfy", "error", err)
	}
	return nil
}
