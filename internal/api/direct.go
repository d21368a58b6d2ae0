package api

import (
	"io"
	"net/http"
	"strconv"
)

// Direct sends requests to a handler in this process, on behalf of one caller. It is the transport of an http.Client.
type Direct struct {
	Handler http.Handler
	Caller  Caller
	From    string // the address that the caller has; empty if it has none
}

// RoundTrip lets the handler answer.
func (d Direct) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := r.WithContext(WithCaller(r.Context(), d.Caller))
	asked.RemoteAddr = d.From
	if asked.Body == nil {
		asked.Body = http.NoBody
	}
	kept := newRecorder(http.Header{})
	d.Handler.ServeHTTP(kept, asked)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{
		Status: strconv.Itoa(kept.status) + " " + http.StatusText(kept.status), StatusCode: kept.status, Header: kept.header,
		Body: io.NopCloser(&kept.body), ContentLength: int64(kept.body.Len()), Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}
