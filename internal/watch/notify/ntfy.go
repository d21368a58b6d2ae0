package notify

import (
	"bufio"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
)

const (
	longestNtfy = 3900 // bytes of a message; ntfy turns longer ones into files
	mostActions = 3    // that ntfy shows
)

// ntfy sends to one topic.
type ntfy struct {
	target NtfyTarget
	client *http.Client
	// answers makes the buttons; nil sends none.
	answers Subjects
	// approve lets the button approve. Otherwise it opens the page.
	approve bool
}

type ntfyMessage struct {
	Topic    string       `json:"topic"`
	Sequence string       `json:"sequence_id,omitempty"` // a message with the same one takes the place of the earlier on the phone
	Title    string       `json:"title"`
	Message  string       `json:"message"`
	Priority int          `json:"priority,omitempty"`
	Tags     []string     `json:"tags,omitempty"`
	Click    string       `json:"click,omitempty"`
	Actions  []ntfyAction `json:"actions,omitempty"`
}

type ntfyAction struct {
	Action string `json:"action"`
	Label  string `json:"label"`
	URL    string `json:"url"`
	Method string `json:"method,omitempty"`
	Body   string `json:"body,omitempty"`
	Clear  bool   `json:"clear,omitempty"`
	// Headers carry the sequence to the topic of answers as a title, so that the reply takes the place of the notice.
	Headers map[string]string `json:"headers,omitempty"`
}

// Send publishes a notice.
func (s ntfy) Send(ctx context.Context, n ops.Notice) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	text := messageOf(ops.Notice{Title: n.Title, Body: n.Body, Level: n.Level})
	body, whole := fit(text.Body, longestNtfy)
	m := ntfyMessage{
		Topic: s.target.Topic, Title: text.Title, Message: body, Priority: s.target.Priority, Tags: s.target.Tags, Click: n.Link,
	}
	m.Priority = cmp.Or(m.Priority, map[ops.Level]int{ops.LevelWarning: 4, ops.LevelCritical: 5}[n.Level])
	var err error
	if m.Sequence, err = s.sequence(ctx, n); err != nil {
		return err
	}
	if m.Actions, err = s.actions(ctx, n, whole, m.Sequence); err != nil {
		return err
	}
	return s.publish(ctx, m)
}

// say publishes a short text, as the reply to an answer. It takes the place of the notice that was answered.
func (s ntfy) say(ctx context.Context, sequence, title, text string) error {
	return s.publish(ctx, ntfyMessage{Topic: s.target.Topic, Sequence: sequence, Title: title, Message: text})
}

// sequence is the same for all notices of one problem, so that the phone shows the newest only. Others at the topic cannot guess it.
func (s ntfy) sequence(ctx context.Context, n ops.Notice) (string, error) {
	if s.answers == nil {
		return "", nil
	}
	first, err := s.answers.NoticeThread(ctx, n)
	if err != nil || first == 0 {
		return "", err
	}
	key, err := s.answers.AnswerKey(ctx)
	return secretName(key, fmt.Sprintf("sequence\x00%d\x00%s/%s", first, s.target.Base, s.target.Topic)), err
}

// secretName is a name that nobody can guess without the key.
func secretName(key []byte, of string) string {
	const shown = 20
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(of))
	return namePrefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(mac.Sum(nil)[:shown]))
}

const namePrefix = "claudeops-"

func (s ntfy) actions(ctx context.Context, n ops.Notice, whole bool, sequence string) ([]ntfyAction, error) {
	var out []ntfyAction
	if s.answers != nil {
		buttons, key, err := signedButtons(ctx, s.answers, n, s.target.recipient())
		if err != nil {
			return nil, err
		}
		for _, b := range buttons {
			// A person must not approve with one press what the message does not show, or what anyone with the topic could approve.
			if b.token.Decision == answer.Approve && !(s.approve && whole) {
				if n.Link != "" {
					out = append(out, ntfyAction{Action: "view", Label: b.label + "…", URL: n.Link})
				}
				continue
			}
			var headers map[string]string
			if sequence != "" {
				headers = map[string]string{"X-Title": sequence}
			}
			out = append(out, ntfyAction{
				Headers: headers, Action: "http", Label: b.label, URL: s.target.Base + "/" + s.target.replyTopic(key), Method: http.MethodPost,
				Body: b.signed, Clear: true,
			})
		}
	}
	if n.Link != "" && len(out) < mostActions && (len(out) == 0 || out[0].Action != "view") {
		out = append(out, ntfyAction{Action: "view", Label: "Details", URL: n.Link})
	}
	return out[:min(len(out), mostActions)], nil
}

// replyTopic is where answers arrive. Without a name in the configuration it has one that nobody can guess.
func (t NtfyTarget) replyTopic(key []byte) string {
	if t.Reply != "" {
		return t.Reply
	}
	return secretName(key, "reply topic\x00"+t.Base+"/"+t.Topic)
}

func (s ntfy) publish(ctx context.Context, m ntfyMessage) error {
	_, host, _ := strings.Cut(s.target.Base, "://")
	header := s.target.header()
	if m.Sequence != "" {
		header.Set("X-Sequence-Id", m.Sequence)
	}
	status, body, err := postJSON(ctx, s.client, s.target.Base+"/", header, m)
	if err != nil {
		return fmt.Errorf("reach ntfy at %s: %w", host, err)
	}
	if status >= 200 && status < 300 {
		return nil
	}
	return refused("ntfy at "+host, status, body, strings.NewReplacer(s.target.Topic, "***"))
}

func (t NtfyTarget) header() http.Header {
	h := http.Header{}
	req := http.Request{Header: h}
	switch {
	case t.Token != "":
		h.Set("Authorization", "Bearer "+t.Token)
	case t.User != "":
		req.SetBasicAuth(t.User, t.Password)
	}
	return h
}

// ntfyEvent is a line of a topic's stream.
type ntfyEvent struct {
	ID      string `json:"id"`
	Event   string `json:"event"`
	Title   string `json:"title"`
	Message string `json:"message"`
}

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
	since = cmp.Or(since, "all")
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
