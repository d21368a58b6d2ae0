package acp

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"sync"
	"time"
)

// protocolVersion is the one that is spoken here.
const protocolVersion = 1

// The methods of the protocol that are used.
const (
	methodInitialize = "initialize"
	methodNew        = "session/new"
	methodLoad       = "session/load"
	methodResume     = "session/resume"
	methodFork       = "session/fork"
	methodSetModel   = "session/set_model"
	methodSetOption  = "session/set_config_option"
	methodPrompt     = "session/prompt"
	methodClose      = "session/close"
	methodCancel     = "session/cancel"
	methodUpdate     = "session/update"
	methodPermission = "session/request_permission"
)

// Errors of JSON-RPC.
const (
	errMethod  = -32601
	errRequest = -32600
	errAuth    = -32000 // of the protocol: somebody has to sign in
)

// message is one line of either side: a request has a method and an id, a notification only a method, an answer only an id.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// text is what an error says, with its details: many CLIs put the cause only there.
func (e *rpcError) text() string {
	out := e.Message
	var text string
	var fields struct {
		Details string `json:"details"`
		Message string `json:"message"`
		Error   string `json:"error"`
	}
	switch {
	case json.Unmarshal(e.Data, &text) == nil && text != "":
		return out + ": " + text
	case json.Unmarshal(e.Data, &fields) == nil:
		for _, t := range []string{fields.Details, fields.Message, fields.Error} {
			if t != "" {
				return out + ": " + t
			}
		}
	}
	return out
}

// parse reads one line. Whatever is not a message is not.
func parse(line string) (message, bool) {
	var m message
	if trimmed := bytes.TrimLeft([]byte(line), " \t"); len(trimmed) == 0 || trimmed[0] != '{' || json.Unmarshal(trimmed, &m) != nil {
		return message{}, false
	}
	if m.Version != "2.0" {
		return message{}, false
	}
	return m, true
}

// usableID reports whether an id is a text or a number.
func usableID(id json.RawMessage) bool {
	id = bytes.TrimSpace(id)
	return len(id) > 0 && len(id) < 256 && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
}

type clientCapabilities struct {
	FS struct {
		Read  bool `json:"readTextFile"`
		Write bool `json:"writeTextFile"`
	} `json:"fs"`
	Terminal bool `json:"terminal"`
}

type initializeParams struct {
	Version      int                `json:"protocolVersion"`
	Capabilities clientCapabilities `json:"clientCapabilities"` // none: the CLI has no way around the calls that are asked about
	Client       implementation     `json:"clientInfo"`
}

type implementation struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// initialized is what a CLI tells of itself.
type initialized struct {
	Version int            `json:"protocolVersion"`
	Agent   implementation `json:"agentInfo"`
	Can     struct {
		Load    bool `json:"loadSession"`
		Session struct {
			Fork   json.RawMessage `json:"fork"`
			Resume json.RawMessage `json:"resume"`
			Close  json.RawMessage `json:"close"`
		} `json:"sessionCapabilities"`
	} `json:"agentCapabilities"`
}

// offered reports whether a capability is there: it is an object.
func offered(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// continues is the method by which a CLI continues a conversation; empty when it has none. A fork leaves the conversation as it was.
func (i initialized) continues() string {
	switch {
	case offered(i.Can.Session.Fork):
		return methodFork
	case offered(i.Can.Session.Resume):
		return methodResume
	case i.Can.Load:
		return methodLoad
	}
	return ""
}

type sessionParams struct {
	SessionID string      `json:"sessionId,omitempty"`
	Cwd       string      `json:"cwd"`
	Servers   []mcpServer `json:"mcpServers"`
}

type mcpServer struct {
	Name    string     `json:"name"`
	Command string     `json:"command"`
	Args    []string   `json:"args"`
	Env     []variable `json:"env"`
}

type variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// opened is the answer to a session that was opened.
type opened struct {
	SessionID string `json:"sessionId"`
	Models    *struct {
		Current   string `json:"currentModelId"`
		Available []struct {
			ID string `json:"modelId"`
		} `json:"availableModels"`
	} `json:"models"`
	Options []configOption `json:"configOptions"`
}

// configOption is a setting that a CLI offers for the session.
type configOption struct {
	ID       string          `json:"id"`
	Category string          `json:"category"`
	Current  json.RawMessage `json:"currentValue"`
	Options  []choice        `json:"options"`
}

// choice is one value of a setting, or a group of them. Its name is for people: a CLI need not take it.
type choice struct {
	Value   string   `json:"value"`
	Options []choice `json:"options"`
}

func (o configOption) offers(value string) bool { return offers(o.Options, value) }

func offers(list []choice, value string) bool {
	return slices.ContainsFunc(list, func(c choice) bool { return c.Value == value || offers(c.Options, value) })
}

type setModelParams struct {
	SessionID string `json:"sessionId"`
	Model     string `json:"modelId"`
}

type setOptionParams struct {
	SessionID string `json:"sessionId"`
	Option    string `json:"configId"`
	Value     string `json:"value"`
}

type sessionID struct {
	ID string `json:"sessionId"`
}

type promptParams struct {
	SessionID string      `json:"sessionId"`
	Prompt    []textBlock `json:"prompt"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// prompted is the end of a turn.
type prompted struct {
	Reason string `json:"stopReason"`
	Usage  *usage `json:"usage"`
}

type usage struct {
	Input      int64 `json:"inputTokens"`
	Output     int64 `json:"outputTokens"`
	CacheRead  int64 `json:"cachedReadTokens"`
	CacheWrite int64 `json:"cachedWriteTokens"`
}

func (u usage) plus(o usage) usage {
	return usage{
		Input: u.Input + o.Input, Output: u.Output + o.Output, CacheRead: u.CacheRead + o.CacheRead, CacheWrite: u.CacheWrite + o.CacheWrite,
	}
}

type updateParams struct {
	SessionID string `json:"sessionId"`
	Update    update `json:"update"`
}

// update is one thing that a session tells.
type update struct {
	toolCall

	Kind      string          `json:"sessionUpdate"`
	Content   json.RawMessage `json:"content"` // one block of a message, or what a call returned
	MessageID string          `json:"messageId"`
	Used      int64           `json:"used"`
	Size      int64           `json:"size"`
	Cost      *struct {
		Amount   float64 `json:"amount"`
		Currency string  `json:"currency"`
	} `json:"cost"`
}

// toolCall is what is told of a call, in parts: a later part replaces what it names.
type toolCall struct {
	ID        string          `json:"toolCallId"`
	Name      string          `json:"name"`
	Title     string          `json:"title"`
	ToolKind  string          `json:"kind"`
	Status    string          `json:"status"`
	Input     json.RawMessage `json:"rawInput"`
	Output    json.RawMessage `json:"rawOutput"`
	Locations []struct {
		Path string `json:"path"`
	} `json:"locations"`
	Meta struct {
		Tool   string `json:"toolName"` // of Qwen Code
		Claude struct {
			Tool string `json:"toolName"`
		} `json:"claudeCode"`
	} `json:"_meta"`
}

type permissionParams struct {
	SessionID string   `json:"sessionId"`
	Call      toolCall `json:"toolCall"`
	Options   []option `json:"options"`
}

type option struct {
	ID   string `json:"optionId"`
	Kind string `json:"kind"`
}

// The kinds of an answer that are given. One that holds for later calls is never given.
const (
	allowOnce  = "allow_once"
	rejectOnce = "reject_once"
)

type permissionResult struct {
	Outcome outcomeOf `json:"outcome"`
}

type outcomeOf struct {
	Outcome string `json:"outcome"`
	Option  string `json:"optionId,omitempty"`
}

// The states of a call.
const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusFailed     = "failed"
)

// sendTime bounds how long a CLI may take to read what it is sent.
const sendTime = 30 * time.Second

// closeTime bounds how long a CLI may take to close its session before its input is closed.
const closeTime = 5 * time.Second

// wire is the standard input of the CLI.
type wire struct {
	file *os.File

	mu  sync.Mutex
	err error // the first; nothing is sent after it
}

var errClosed = errors.New("its input is closed")

// send writes one message.
func (w *wire) send(m message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	m.Version = "2.0"
	line, err := json.Marshal(m)
	if err == nil {
		err = w.file.SetWriteDeadline(time.Now().Add(sendTime))
	}
	if err == nil {
		_, err = w.file.Write(append(line, '\n'))
	}
	if err != nil {
		w.end(err)
	}
}

// close tells the CLI that nothing more comes, so that it ends.
func (w *wire) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end(errClosed)
}

// closeSoon closes it after a while, whatever the CLI does until then.
func (w *wire) closeSoon() { time.AfterFunc(closeTime, w.close) }

func (w *wire) end(err error) {
	if w.err == nil {
		w.err = err
		_ = w.file.Close()
	}
}

// broken is why messages could not be sent, if so.
func (w *wire) broken() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(w.err, errClosed) {
		return nil
	}
	return w.err
}

// params encodes what belongs to a message. The types of this package can always be encoded.
func params(v any) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}
