// Package load attacks the real `pawl up` over raw connections, and checks that its memory stays bounded and that another user is served.
package load
