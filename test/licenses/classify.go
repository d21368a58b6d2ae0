package main

import (
	"slices"
	"strings"
)

// kind tells a licence by words that are in it.
type kind struct {
	name    string
	words   []string
	without []string
}

const (
	iscGrant = "permission to use, copy, modify, and"
	bsdGrant = "redistribution and use in source and binary forms"
	bsdThird = "endorse or promote products" // the clause about names
)

// knownKinds lists the licences that are recognised, also those that are not allowed.
func knownKinds() []kind {
	return []kind{
		{name: "Apache-2.0", words: []string{"apache license", "version 2.0"}},
		{name: "MIT", words: []string{"permission is hereby granted, free of charge, to any person"}},
		{name: "BSD-3-Clause", words: []string{bsdGrant, bsdThird}},
		{name: "BSD-2-Clause", words: []string{bsdGrant}, without: []string{bsdThird}},
		{name: "ISC", words: []string{iscGrant, "provided that the above copyright notice"}},
		{name: "0BSD", words: []string{iscGrant, "with or without fee is hereby granted."}, without: []string{"provided that the above copyright notice"}},
		{name: "MPL-2.0", words: []string{"mozilla public license", "2.0"}},
		{name: "Unlicense", words: []string{"free and unencumbered software released into the public domain"}},
		{name: "public domain", words: []string{"dedicated to the public domain"}},
		{name: "public domain", words: []string{"the author disclaims copyright to this source code"}},
		{name: "CC0-1.0", words: []string{"cc0 1.0 universal"}},
		{name: "AGPL", words: []string{"gnu affero general public license", "everyone is permitted to copy and distribute verbatim copies"}},
		{name: "LGPL", words: []string{"gnu lesser general public license", "everyone is permitted to copy and distribute verbatim copies"}},
		{
			name: "GPL", words: []string{"gnu general public license", "everyone is permitted to copy and distribute verbatim copies"},
			without: []string{"gnu lesser general public license version"},
		},
		{name: "SSPL", words: []string{"server side public license"}},
		{name: "BUSL", words: []string{"business source license"}},
	}
}

// allowed lists the licences under which others may be part of the program.
func allowed() []string {
	return []string{"Apache-2.0", "MIT", "BSD-3-Clause", "BSD-2-Clause", "ISC", "0BSD", "MPL-2.0", "Unlicense", "public domain", "CC0-1.0"}
}

// classify names the licences in a text.
func classify(text string) []string {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	has := func(word string) bool { return strings.Contains(text, word) }
	var out []string
	for _, k := range knownKinds() {
		if !slices.ContainsFunc(k.words, func(w string) bool { return !has(w) }) && !slices.ContainsFunc(k.without, has) && !slices.Contains(out, k.name) {
			out = append(out, k.name)
		}
	}
	return out
}
