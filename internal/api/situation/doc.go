// Package situation says in sentences what is being done about every problem, and what is about to happen. The sentences are a pure
// function of rows; the overview page, the API and the status command show the same ones.
package situation
