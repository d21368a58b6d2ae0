package acp

import (
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"
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
