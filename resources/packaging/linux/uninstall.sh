#!/bin/sh
# Takes an installed VRAM Planner away. Plans and settings stay. With --refresh, only tells menus what there is now.
set -eu
place="$(cd "$(dirname "$0")" && pwd)"
prefix="$(cd "$place/../.." && pwd)"
refresh() {
  if command -v update-desktop-database >/dev/null; then update-desktop-database -q "$prefix/share/applications" || true; fi
  if command -v update-mime-database >/dev/null; then update-mime-database "$prefix/share/mime" || true; fi
}
if [ "${1:-}" = --refresh ]; then refresh; exit 0; fi
case "$place" in
  */lib/vram-planner) ;;
  *) echo "uninstall.sh: $place is not where install.sh puts it; delete this folder yourself." >&2; exit 1 ;;
esac
(cd "$place/share" && find . -type f -o -type l) | while read -r file; do
  rm -f "$prefix/share/$file"
  rmdir -p --ignore-fail-on-non-empty "$prefix/share/$(dirname "$file")" 2>/dev/null || true
done
rm -f "$prefix/bin/vram-planner"
refresh
# Where no program is left, what was gathered from them goes too.
emptied() { [ -z "$(ls "$1" 2>/dev/null | grep "$2" || true)" ]; }
cd "$prefix/share"
if emptied applications '\.desktop$'; then rm -f applications/mimeinfo.cache; fi
if emptied mime/packages '\.xml$'; then
  for name in XMLnamespaces aliases generic-icons globs globs2 icons magic mime.cache subclasses treemagic types version; do
    rm -f "mime/$name"
  done
fi
find applications mime -depth -type d -empty -delete 2>/dev/null || true
cd /
rm -rf "$place"
echo "VRAM Planner is gone; plans and settings are still there."
