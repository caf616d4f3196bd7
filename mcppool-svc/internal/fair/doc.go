// Package fair bounds what many users keep in one place, in number and in bytes: where there is no room, who holds most
// loses first, and of that the oldest. It knows nothing of what is kept, and does not lock.
package fair
