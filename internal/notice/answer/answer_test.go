package answer

import (
	"errors"
	"strings"
	"testing"
	"time"
)

var (
	testKey = []byte(strings.Repeat("k", 32))
	testNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

func aToken() Token {
	return Token{
		Subject: Subject{Kind: KindApproval, ID: 7}, Decision: Deny, Plan: "3f9a", Recipient: "telegram:42", Expires: testNow.Add(time.Hour),
	}
}

func TestATokenIsReadAsItWasSigned(t *testing.T) {
	for _, want := range []Token{
		aToken(),
		{Subject: Subject{Kind: KindIncident, ID: 1}, Decision: Snooze, Expires: testNow.Add(time.Second)},
		{Subject: Subject{ID: -1}, Plan: strings.Repeat("a", 300), Recipient: "Ä\x00/&", Expires: testNow.Add(time.Hour)},
	} {
		got, err := Verify(testKey, Sign(testKey, want), testNow)
		if err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
}

func TestATokenIsSafeInAURL(t *testing.T) {
	signed := Sign(testKey, aToken())
	if strings.Trim(signed, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		t.Errorf("%q has characters that a URL does not take", signed)
	}
}

func TestEachPartOfATokenIsSigned(t *testing.T) {
	signed := Sign(testKey, aToken())
	for i := range len(signed) {
		for _, r := range []string{"A", "z", "-", "=", " ", ""} {
			changed := signed[:i] + r + signed[i+1:]
			if changed == signed {
				continue
			}
			if _, err := Verify(testKey, changed, testNow); !errors.Is(err, ErrForged) {
				t.Fatalf("character %d as %q gives %v", i, r, err)
			}
		}
	}
	// The border between two texts is signed too.
	one, other := aToken(), aToken()
	one.Plan, one.Recipient = "ab", "c"
	other.Plan, other.Recipient = "a", "bc"
	if Sign(testKey, one) == Sign(testKey, other) {
		t.Error("two tokens have the same text")
	}
}

func TestOtherTextsAreForged(t *testing.T) {
	signed := Sign(testKey, aToken())
	for _, text := range []string{"", "x", signed + "A", "A" + signed, signed + "\n", strings.Repeat("A", longest+1), signed[1:], "%%%"} {
		if _, err := Verify(testKey, text, testNow); !errors.Is(err, ErrForged) {
			t.Errorf("%.40q gives %v", text, err)
		}
	}
	if _, err := Verify([]byte(strings.Repeat("x", 32)), signed, testNow); !errors.Is(err, ErrForged) {
		t.Errorf("another key gives %v", err)
	}
	if _, err := Verify(nil, Sign(nil, aToken()), testNow); !errors.Is(err, ErrForged) {
		t.Errorf("no key gives %v", err)
	}
}

func TestALateTokenSaysWhatItWasFor(t *testing.T) {
	signed := Sign(testKey, aToken())
	for _, late := range []time.Duration{time.Hour, 2 * time.Hour} {
		got, err := Verify(testKey, signed, testNow.Add(late))
		if !errors.Is(err, ErrExpired) || got != aToken() {
			t.Errorf("after %s: %+v, %v", late, got, err)
		}
	}
	if _, err := Verify(testKey, signed, testNow.Add(time.Hour-time.Second)); err != nil {
		t.Errorf("in time: %v", err)
	}
}

func FuzzVerify(f *testing.F) {
	f.Add(Sign(testKey, aToken()))
	f.Add("")
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Verify(testKey, text, testNow)
		switch {
		case err == nil, errors.Is(err, ErrExpired):
			if Sign(testKey, got) != text {
				t.Errorf("%q is a second spelling of %+v", text, got)
			}
		case got != Token{}:
			t.Errorf("a forged text gives %+v", got)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{version, 2, 2, 1, 'a', 1, 'b', 0, 0})
	f.Fuzz(func(_ *testing.T, raw []byte) {
		decode(raw) // must not panic
	})
}
