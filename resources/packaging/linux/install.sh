#!/bin/sh
# Installs VRAM Planner for this person, or as root for all: install.sh [PREFIX]. `uninstall.sh` takes it away again.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
if [ "$(id -u)" = 0 ]; then default=/usr/local; else default="$HOME/.local"; fi
prefix="${1:-$default}"
place="$prefix/lib/vram-planner"
[ ! -e "$place" ] || "$place/uninstall.sh"
mkdir -p "$prefix/lib" "$prefix/bin"
mkdir "$place"
(cd "$here" && tar cf - .) | (cd "$place" && tar xf -)
ln -sf "$place/vram-planner" "$prefix/bin/vram-planner"
cd "$place/share"
find . -type f -o -type l | while read -r file; do
  mkdir -p "$prefix/share/$(dirname "$file")"
  cp "$file" "$prefix/share/$file"
done
# Menus start programs without the PATH of a shell.
sed -i "s|^Exec=vram-planner|Exec=\"$place/vram-planner\"|" "$prefix/share/applications/vram-planner.desktop"
"$place/uninstall.sh" --refresh
echo "VRAM Planner is installed in $place."
case ":$PATH:" in
  *":$prefix/bin:"*) echo "Start it from the menu, or with: vram-planner" ;;
  *) echo "Start it from the menu, or with: $prefix/bin/vram-planner" ;;
esac
