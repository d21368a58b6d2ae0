package main

import "testing"

// An entry whose text has changed breaks nothing, and would only be noticed by who plays the list.
func TestEveryMutationApplies(t *testing.T) {
	t.Chdir("../..")
	for _, m := range mutations() {
		if _, err := m.overlay(t.TempDir()); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}
