package web

import (
	"strings"

	"claudeops/internal/store"
)

// railGroup is a part of the navigation.
type railGroup struct {
	Name  string
	Links []railLink
	More  []railLink // those that a phone shows under More
}

// railLink is one entry of the navigation.
type railLink struct {
	Name, Path, Icon, Word string
	Tab                    bool // one of the tabs of a phone
	Current                bool
	Count                  int
}

// rail returns the navigation: every page can be reached from it.
func rail(current string, counts store.PageState) []railGroup {
	groups := []railGroup{
		{Links: []railLink{{Name: "overview", Path: "/", Icon: "layout-dashboard", Word: "Overview", Tab: true}}},
		{Name: "Watch", Links: []railLink{
			{Name: "cycles", Path: "/cycles", Icon: "list", Word: "Cycles", Tab: true},
			{Name: "incidents", Path: "/incidents", Icon: "siren", Word: "Incidents", Tab: true, Count: counts.Approvals + counts.Incidents},
			{Name: "services", Path: "/services", Icon: "server", Word: "Services", Tab: true},
			{Name: "events", Path: "/events", Icon: "activity", Word: "Events"},
		}},
		{Name: "Act", Links: []railLink{
			{Name: "approvals", Path: "/approvals", Icon: "hand", Word: "Approvals"},
			{Name: "actions", Path: "/actions", Icon: "wrench", Word: "Actions"},
			{Name: "silences", Path: "/silences", Icon: "bell-off", Word: "Silences"},
		}},
		{Name: "Records", Links: []railLink{
			{Name: "costs", Path: "/costs", Icon: "coins", Word: "Costs"},
			{Name: "notifications", Path: "/notifications", Icon: "bell", Word: "Notifications"},
			{Name: "memory", Path: "/memory", Icon: "brain", Word: "Memory"},
			{Name: "guard", Path: "/guard", Icon: "shield", Word: "Guard"},
		}},
		{Name: "Set-up", Links: []railLink{
			{Name: "hosts", Path: "/hosts", Icon: "monitor", Word: "Hosts"},
			{Name: "config", Path: "/config", Icon: "settings", Word: "Config"},
			{Name: "docs", Path: "/api/docs", Icon: "scroll-text", Word: "API docs"},
		}},
	}
	for g := range groups {
		for i := range groups[g].Links {
			link := &groups[g].Links[i]
			link.Current = link.Name == current
			if !link.Tab {
				groups[g].More = append(groups[g].More, *link)
			}
		}
	}
	return groups
}

// railName is the entry of the navigation that a path belongs to; empty if none.
func railName(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "":
		return "overview"
	case "sessions":
		return "cycles"
	}
	for _, group := range rail("", store.PageState{}) {
		for _, link := range group.Links {
			if link.Name == first {
				return first
			}
		}
	}
	return ""
}
