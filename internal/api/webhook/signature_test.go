package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"claudeops/internal/guard/redact"
)

// signed is the header of a request that is signed with time and target.
func signed(secret, target, body string, at time.Time) header {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s.%s", at.Unix(), target, body)
	return header{signatureHeader: fmt.Sprintf("t=%d,v2=%s", at.Unix(), hex.EncodeToString(mac.Sum(nil)))}
}

func TestTheEnvironmentIsPartOfWhatIsSigned(t *testing.T) {
	const lab = Path + "generic?environment=lab"
	now := time.Now()
	for _, tt := range []struct {
		name, target string
		headers      header
		want         int
	}{
		{"signed with its query", lab, signed("key", lab, body, now), 202},
		{"signed without a query", Path + "generic", signed("key", Path+"generic", body, now), 202},
		{"signed for another environment", lab, signed("key", Path+"generic?environment=home", body, now), 401},
		{"query added later", lab, signed("key", Path+"generic", body, now), 401},
		{"another source", Path + "generic", signed("key", Path+"grafana", body, now), 401},
		{"another body", Path + "generic", signed("key", Path+"generic", body+" ", now), 401},
		{"another key", lab, signed("other", lab, body, now), 401},
		{"too old", lab, signed("key", lab, body, now.Add(-signedWithin-time.Minute)), 401},
		{"from the future", lab, signed("key", lab, body, now.Add(signedWithin+time.Minute)), 401},
		{"the clock differs a little", lab, signed("key", lab, body, now.Add(time.Minute)), 202},
		{"no time", lab, header{signatureHeader: "v2=00"}, 401},
		{"another version", lab, header{signatureHeader: strings.Replace(signed("key", lab, body, now)[signatureHeader], "v2=", "v3=", 1)}, 401},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := &rows{}
			h := running(t, Options{Store: store, Secret: "key", Environments: []string{"home", "lab"}})
			if w := post(h, tt.target, body, tt.headers); w.Code != tt.want || (len(store.all()) == 1) != (tt.want == 202) {
				t.Errorf("answered %d %s, %d stored", w.Code, w.Body, len(store.all()))
			}
		})
	}
}

func TestASignedRequestIsStoredOnce(t *testing.T) {
	store := &rows{}
	h := running(t, Options{Store: store, Secret: "key"})
	const target = Path + "generic"
	now := time.Now()
	first := signed("key", target, body, now)
	if w := post(h, target, body, first); w.Code != 202 || strings.TrimSpace(w.Body.String()) != `{"accepted":1}` {
		t.Fatalf("answered %d %s", w.Code, w.Body)
	}
	// A sender that missed the answer is told that the alert is stored.
	if w := post(h, target, body, first); w.Code != 202 || strings.TrimSpace(w.Body.String()) != `{"accepted":0,"replayed":true}` {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
	upper := header{signatureHeader: strings.Replace(strings.ToUpper(first[signatureHeader]), "T=", "t=", 1)}
	upper[signatureHeader] = strings.Replace(upper[signatureHeader], "V2=", "v2=", 1)
	if w := post(h, target, body, upper); !strings.Contains(w.Body.String(), "replayed") {
		t.Errorf("the same signature in another spelling is answered %d %s", w.Code, w.Body)
	}
	if w := post(h, target, body, signed("key", target, body, now.Add(time.Second))); w.Code != 202 || len(store.all()) != 2 {
		t.Errorf("the same alert a second later: %d %s, %d stored", w.Code, w.Body, len(store.all()))
	}
}

// TestUnfinishedBodiesBlockNobody opens more requests than there are slots and finishes none of them.
func TestUnfinishedBodiesBlockNobody(t *testing.T) {
	store := &rows{}
	h := running(t, Options{Store: store, Secret: "key", Token: "token-of-the-api", AtOnce: 8})
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	address := server.Listener.Addr().String()
	const open = mostPerAddress + 20
	answers := make(chan error, open)
	for range open {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		fmt.Fprintf(c, "POST %sgeneric HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000\r\n%s: t=0,v2=00\r\n\r\n{", Path, address, signatureHeader)
		go func() {
			_, err := c.Read(make([]byte, 1))
			answers <- err
		}()
	}
	for range open - mostPerAddress { // the oldest are given up, so all others have arrived
		if err := <-answers; err != nil {
			t.Errorf("an old one got no answer: %v", err)
		}
	}
	for _, headers := range []header{signed("key", Path+"generic", body, time.Now()), {"Authorization": "Bearer token-of-the-api"}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+Path+"generic", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range headers {
			r.Header.Set(name, value)
		}
		got, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		if got.StatusCode != http.StatusAccepted {
			t.Errorf("answered %d beside unfinished bodies", got.StatusCode)
		}
	}
}

func TestLabelsAreRedactedByNameAndValue(t *testing.T) {
	store := &rows{}
	h := running(t, Options{Store: store, Redact: redact.New([]string{"configured-secret-1"}).String})
	post(h, Path+"generic", `{"name":"a","labels":{"password":"two words","db_pass":"correcthorse","host":"nas","note":"x configured-secret-1",
		"url":"postgres://u:hunter22@db/x","ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa":"1"}}`, nil)
	got := store.all()
	if len(got) != 1 {
		t.Fatalf("%d stored", len(got))
	}
	labels := got[0].Labels
	if labels["host"] != "nas" || labels["password"] != "[redacted: password]" {
		t.Errorf("labels are %v", labels)
	}
	text := fmt.Sprintf("%+v", got)
	for _, secret := range []string{"two words", "correcthorse", "configured-secret-1", "hunter22", "ghp_aaaa"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is stored: %s", secret, text)
		}
	}
}
