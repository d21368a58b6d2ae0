// Package notice holds the texts of the notices that people get, often on a phone: the first line says what is wrong and what to do,
// and a few short facts follow. It also says when a notice is sent: not in quiet hours. It
// is pure: the callers decide whether a notice is sent and how urgent it is. The texts are plain, so that they read the same whether the
// target renders Markdown or not.
package notice
