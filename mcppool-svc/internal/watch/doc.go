// Package watch wakes those who wait for something to change. It carries no news, only the word that there is some: who is
// woken looks for himself, so that slow watchers cost nothing and nothing is told out of order. It knows neither servers nor
// users but by their names.
package watch
