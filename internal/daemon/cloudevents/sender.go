package cloudevents

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/store"
)

const (
	// sendTimeout bounds one delivery from the first byte to the last of the answer.
	sendTimeout = 10 * time.Second
	// mostAnswer is how much of an answer is read; the rest is not needed.
	mostAnswer = 4 << 10
	// structured is the media type of an event in which the attributes are part of the body, so that the signature covers them.
	structured = "application/cloudevents+json; charset=UTF-8"
)

// Target is one receiver.
type Target struct {
	Name        string
	URL         string
	Secret      string   // empty: events are not signed
	Kinds       []string // empty: all
	Environment string   // empty: all
}

// wants reports whether the target gets an event.
func (t Target) wants(e store.OutgoingEvent) bool {
	return (t.Environment == "" || t.Environment == e.Environment) && (len(t.Kinds) == 0 || slices.Contains(t.Kinds, e.Kind))
}

// newClient makes a client that follows no redirects: a receiver must not send events elsewhere.
func newClient() *http.Client {
	return &http.Client{
		Timeout: sendTimeout,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: sendTimeout, ResponseHeaderTimeout: sendTimeout,
			MaxResponseHeaderBytes: 64 << 10, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// errRefused is an answer that says that the event itself is wrong: sending it again does not help.
var errRefused = errors.New("the receiver refuses the event")

// send delivers one event. Without an error the receiver has taken it.
func send(ctx context.Context, client *http.Client, t Target, e store.OutgoingEvent, now time.Time, version string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL, bytes.NewReader(e.Data))
	if err != nil {
		return fmt.Errorf("make request: %w", withoutAddress(err))
	}
	q.Header.Set("Content-Type", structured)
	q.Header.Set("User-Agent", "claudeops/"+version)
	sign(q.Header, t.Secret, e.EventID, e.Data, now)
	answer, err := client.Do(q)
	if err != nil {
		return fmt.Errorf("reach %s: %w", q.URL.Host, withoutAddress(err))
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, mostAnswer)) // so that the connection can be used again
	switch code := answer.StatusCode; {
	case code >= 200 && code <= 299:
		return nil
	case code >= 300 && code <= 399:
		return fmt.Errorf("%s redirects to another address; set the final one", q.URL.Host)
	case code == http.StatusBadRequest || code == http.StatusRequestEntityTooLarge || code == http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: %s answered HTTP %d %s", errRefused, q.URL.Host, code, http.StatusText(code))
	default:
		return fmt.Errorf("%s answered HTTP %d %s", q.URL.Host, code, http.StatusText(code))
	}
}

// withoutAddress removes the address from an error: its path and its user can be secrets.
func withoutAddress(err error) error {
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err
	}
	return err
}

// The headers of a signature, as the Standard Webhooks specification names them.
const (
	headerID        = "Webhook-Id"
	headerTime      = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
	encodedSecret   = "whsec_"
)

// sign adds the id, the time and the signature. A receiver refuses old times and ids that it has seen, so that nobody can send a message
// again.
func sign(header http.Header, secret, id string, body []byte, now time.Time) {
	at := strconv.FormatInt(now.Unix(), 10)
	header.Set(headerID, id)
	header.Set(headerTime, at)
	if secret == "" {
		return
	}
	key := []byte(secret)
	if encoded, ok := strings.CutPrefix(secret, encodedSecret); ok {
		if decoded, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			key = decoded
		}
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + at + "."))
	mac.Write(body)
	header.Set(headerSignature, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}
