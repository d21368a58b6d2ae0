// Package phonetest plays the servers through which people get notices on a phone and answer them: ntfy and Telegram. They listen on
// loopback, speak the same protocol and refuse what the real ones refuse.
package phonetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Note is a message of a topic.
type Note struct {
	ID       string   `json:"id"`
	Event    string   `json:"event"`
	Topic    string   `json:"topic"`
	Sequence string   `json:"sequence_id,omitempty"`
	Title    string   `json:"title,omitempty"`
	Message  string   `json:"message,omitempty"`
	Priority int      `json:"priority,omitempty"`
	Tags     []string `json:"tags,omitempty"`
	Click    string   `json:"click,omitempty"`
	Actions  []Action `json:"actions,omitempty"`
}

// Action is a button of a message.
type Action struct {
	Action string `json:"action"`
	Label  string `json:"label"`
	URL    string `json:"url"`
	Method string `json:"method,omitempty"`
	Body   string `json:"body,omitempty"`

	Headers map[string]string `json:"headers,omitempty"`
}

// Ntfy is an ntfy server.
type Ntfy struct {
	*httptest.Server
	// Auth is the Authorization header that publishing by JSON and reading need; empty: none.
	Auth string

	mu      sync.Mutex
	changed *sync.Cond
	notes   []Note
	streams int // open now
	closed  bool
	fails   int
	since   []string
}

// NewNtfy starts a server that ends with the test.
func NewNtfy(t testing.TB) *Ntfy {
	t.Helper()
	n := &Ntfy{}
	n.changed = sync.NewCond(&n.mu)
	n.Server = httptest.NewServer(http.HandlerFunc(n.serve))
	t.Cleanup(func() {
		n.mu.Lock()
		n.closed = true
		n.changed.Broadcast()
		n.mu.Unlock()
		n.CloseClientConnections()
		n.Close()
	})
	return n
}

// Target is the URL of a topic for the configuration.
func (n *Ntfy) Target(topic string) string {
	return "ntfy://" + strings.TrimPrefix(n.URL, "http://") + "/" + topic
}

// Fail makes the next requests to publish fail.
func (n *Ntfy) Fail(times int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fails = times
}

// Cut ends all connections, as a restart of the server does.
func (n *Ntfy) Cut() { n.CloseClientConnections() }

// Notes returns the messages of a topic; of all without a name.
func (n *Ntfy) Notes(topic string) []Note {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.notes), func(o Note) bool { return topic != "" && o.Topic != topic })
}

// Streams is how many readers are connected.
func (n *Ntfy) Streams() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.streams
}

// Since returns where the readers began, in order.
func (n *Ntfy) Since() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.since)
}

// Press does what a phone does when a person presses the button of a message.
func (n *Ntfy) Press(t testing.TB, note Note, label string) {
	t.Helper()
	i := slices.IndexFunc(note.Actions, func(a Action) bool { return a.Label == label })
	if i < 0 || note.Actions[i].Action != "http" {
		t.Fatalf("no button %q among %+v", label, note.Actions)
	}
	n.post(t, note.Actions[i].URL, note.Actions[i].Body, note.Actions[i].Headers)
}

// Phone returns what a phone shows of a topic: the newest message of each sequence.
func (n *Ntfy) Phone(topic string) (out []Note) {
	for _, note := range n.Notes(topic) {
		out = append(slices.DeleteFunc(out, func(o Note) bool { return o.Sequence != "" && o.Sequence == note.Sequence }), note)
	}
	return out
}

// Post publishes a text at the address of a topic.
func (n *Ntfy) Post(t testing.TB, address, body string) {
	t.Helper()
	n.post(t, address, body, nil)
}

func (n *Ntfy) post(t testing.TB, address, body string, headers map[string]string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("POST answers %d", resp.StatusCode)
	}
}

func (n *Ntfy) serve(w http.ResponseWriter, r *http.Request) {
	topic, stream := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/"), "/json")
	switch {
	case r.Method == http.MethodPost && topic == "":
		n.publish(w, r)
	case r.Method == http.MethodPost:
		body, _ := io.ReadAll(r.Body)
		n.add(Note{Topic: topic, Title: r.Header.Get("X-Title"), Message: string(body)})
	case r.Method == http.MethodGet && stream:
		n.stream(w, r, topic)
	default:
		refuse(w, http.StatusNotFound, "page not found")
	}
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"code": status * 100, "http": status, "error": message})
}

func (n *Ntfy) publish(w http.ResponseWriter, r *http.Request) {
	var note Note
	if err := json.NewDecoder(r.Body).Decode(&note); err != nil {
		refuse(w, http.StatusBadRequest, "invalid request: request body must be valid JSON")
		return
	}
	n.mu.Lock()
	failing := n.fails > 0
	n.fails = max(0, n.fails-1)
	n.mu.Unlock()
	switch {
	case n.Auth != "" && r.Header.Get("Authorization") != n.Auth:
		refuse(w, http.StatusUnauthorized, "unauthorized")
	case failing:
		refuse(w, http.StatusInternalServerError, "internal server error")
	case len(note.Sequence) > 64 || note.Sequence != r.Header.Get("X-Sequence-Id"):
		refuse(w, http.StatusBadRequest, "invalid sequence id")
	case note.Topic == "" || len(note.Topic) > 64:
		refuse(w, http.StatusBadRequest, "invalid topic")
	case len(note.Message) > 4096:
		refuse(w, http.StatusBadRequest, "message too large")
	case len(note.Actions) > 3 || slices.ContainsFunc(note.Actions, func(a Action) bool { return a.Label == "" || a.URL == "" }):
		refuse(w, http.StatusBadRequest, "invalid request: actions invalid")
	default:
		n.add(note)
	}
}

func (n *Ntfy) add(note Note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	note.ID, note.Event = fmt.Sprintf("msg%06d", len(n.notes)+1), "message"
	n.notes = append(n.notes, note)
	n.changed.Broadcast()
}

// stream sends what came after a message, and then what comes.
func (n *Ntfy) stream(w http.ResponseWriter, r *http.Request, topic string) {
	if n.Auth != "" && r.Header.Get("Authorization") != n.Auth {
		refuse(w, http.StatusForbidden, "forbidden")
		return
	}
	encoder := json.NewEncoder(w)
	_ = encoder.Encode(Note{ID: "open1", Event: "open", Topic: topic})
	_ = encoder.Encode(Note{ID: "alive1", Event: "keepalive", Topic: topic})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.streams++
	defer func() { n.streams-- }()
	since := r.URL.Query().Get("since")
	n.since = append(n.since, since)
	next := len(n.notes) // what comes from now on
	if i := slices.IndexFunc(n.notes, func(o Note) bool { return o.ID == since }); i >= 0 {
		next = i + 1
	} else if since != "" {
		next = 0 // all, also if the message is not known any more
	}
	stop := make(chan struct{})
	defer close(stop)
	go func() { // a reader that went away must not be waited for
		select {
		case <-r.Context().Done():
		case <-stop:
		}
		n.mu.Lock()
		n.changed.Broadcast()
		n.mu.Unlock()
	}()
	for {
		for ; next < len(n.notes); next++ {
			if n.notes[next].Topic == topic {
				_ = encoder.Encode(n.notes[next])
			}
		}
		w.(http.Flusher).Flush() //nolint:forcetypeassert // of the test server
		if n.closed || r.Context().Err() != nil {
			return
		}
		n.changed.Wait()
	}
}
