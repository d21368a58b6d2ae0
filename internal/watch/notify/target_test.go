package notify

import (
	"reflect"
	"testing"
)

func TestTargetsOfNtfyAndTelegramAreServedHere(t *testing.T) {
	for raw, want := range map[string][]NtfyTarget{
		"ntfy://homelab":                        {{Base: "https://ntfy.sh", Topic: "homelab"}},
		"ntfy://ntfy.sh/homelab":                {{Base: "https://ntfy.sh", Topic: "homelab"}},
		"ntfys://ntfy.sh/homelab":               {{Base: "https://ntfy.sh", Topic: "homelab"}},
		"NTFYS://ntfy.example.org/a/b":          {{Base: "https://ntfy.example.org", Topic: "a"}, {Base: "https://ntfy.example.org", Topic: "b"}},
		"ntfy://localhost:8080/homelab":         {{Base: "http://localhost:8080", Topic: "homelab"}},
		"ntfys://tk_AgQdq7@ntfy.example.org/a":  {{Base: "https://ntfy.example.org", Topic: "a", Token: "tk_AgQdq7"}},
		"ntfys://ntfy.example.org/a?token=tk_1": {{Base: "https://ntfy.example.org", Topic: "a", Token: "tk_1"}},
		"ntfys://me:p%40ss@ntfy.example.org/a":  {{Base: "https://ntfy.example.org", Topic: "a", User: "me", Password: "p@ss"}},
		"ntfy://h.example/a?reply=answers-1&priority=high&tags=x,y": {
			{Base: "http://h.example", Topic: "a", Reply: "answers-1", Priority: 4, Tags: []string{"x", "y"}},
		},
		"ntfy://h.example/a?priority=2": {{Base: "http://h.example", Topic: "a", Priority: 2}},
	} {
		if got := ParseTargets([]string{raw}); !reflect.DeepEqual(got, Targets{Ntfy: want}) {
			t.Errorf("%s gives %+v", raw, got)
		}
	}
	for raw, want := range map[string][]TelegramTarget{
		"tgram://123456:ABC-def_1/42":                                {{Token: "123456:ABC-def_1", Chat: "42", API: publicTelegram}},
		"tgram://bot123456:ABC/-100987/@chan":                        {{Token: "123456:ABC", Chat: "-100987", API: publicTelegram}, {Token: "123456:ABC", Chat: "@chan", API: publicTelegram}},
		"tgram://123456:ABC/-100987:7/?silent=yes":                   {{Token: "123456:ABC", Chat: "-100987", Thread: 7, Silent: true, API: publicTelegram}},
		"tgram://123456:ABC/42?api=http%3A%2F%2F127.0.0.1%3A8081%2F": {{Token: "123456:ABC", Chat: "42", API: "http://127.0.0.1:8081"}},
		"tgram://123456:ABC/42?topic=9":                              {{Token: "123456:ABC", Chat: "42", Thread: 9, API: publicTelegram}},
	} {
		if got := ParseTargets([]string{" " + raw}); !reflect.DeepEqual(got, Targets{Telegram: want}) {
			t.Errorf("%s gives %+v", raw, got)
		}
	}
}

func TestWhatOnlyAppriseUnderstandsStaysWithApprise(t *testing.T) {
	for _, raw := range []string{
		"slack://A/B/C", "mailto://me@example.org", "tgram://123456:ABC/", "tgram://token/42", "tgram://123456:ABC/42?format=html", "tgram://123456:ABC/42?api=nowhere",
		"tgram://123456:ABC/42:x", "tgram://123456:ABC/name", "ntfy://h.example/a?email=me@example.org", "ntfy://h.example/a%20b",
		"ntfy://h.example/a?priority=very", "ntfy://h.example/a?reply=a/b", "ntfy:///a", "ntfy://@/a", "ntfy://h.example:port/a", "ntfy://a%zz/b", "nonsense",
	} {
		if got := ParseTargets([]string{raw}); got.Native() != 0 || len(got.Apprise) != 1 || got.Apprise[0] != raw {
			t.Errorf("%s gives %+v", raw, got)
		}
	}
	if got := ParseTargets([]string{" ", ""}); !reflect.DeepEqual(got, Targets{}) {
		t.Errorf("nothing gives %+v", got)
	}
}

func FuzzParseTargets(f *testing.F) {
	for _, seed := range []string{"ntfy://a:b@h:1/t?token=x", "tgram://1:a/-2:3/?silent=1", "ntfys://%41@x/y#z"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		for _, n := range ParseTargets([]string{raw}).Ntfy {
			if !isWord(n.Topic) || n.Base == "" {
				t.Errorf("%q gives %+v", raw, n)
			}
		}
	})
}
