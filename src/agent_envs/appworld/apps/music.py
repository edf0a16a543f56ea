"""The music app."""

from __future__ import annotations

from typing import Any

from agent_envs.appworld.apis import Count, PageLimit, Rating, Refusal, Text, Token
from agent_envs.appworld.apps.app import App, has_words, page


class Music(App):
    """Find songs, like and rate them, and put them into playlists."""

    name = "music"

    def search_songs(
        self,
        access_token: Token,
        query: str = "",
        genre: str = "",
        page_index: Count = 0,
        page_limit: PageLimit = 5,
    ) -> list[dict[str, Any]]:
        """Find songs by words and genre; without either, list all.

        Gives: a list of id, title, artist, album, genre, year, seconds, plays, liked, rating

        Args:
            query: words that title, artist or album must have, all of them
            genre: only songs of this genre
        """
        found = [
            dict(song)
            for song in self._state.rows("songs")
            if has_words(query, song["title"], song["artist"], song["album"])
            and (not genre or song["genre"] == genre.lower())
        ]
        return page(found, page_index, page_limit)

    def show_song(self, access_token: Token, song_id: int) -> dict[str, Any]:
        """Show a song; plays is how often it was heard, rating is 0 where it has none.

        Gives: id, title, artist, album, genre, year, seconds, plays, liked, rating

        Args:
            song_id: id of the song
        """
        return dict(self._found("songs", song_id, "song"))

    def list_genres(self, access_token: Token) -> list[str]:
        """List the genres.

        Gives: a list of genres
        """
        return sorted({song["genre"] for song in self._state.rows("songs")})

    def list_liked_songs(
        self, access_token: Token, page_index: Count = 0, page_limit: PageLimit = 5
    ) -> list[dict[str, Any]]:
        """List the songs that you like.

        Gives: a list of id, title, artist, album, genre, year, seconds, plays, liked, rating
        """
        liked = (dict(song) for song in self._state.rows("songs", liked=True))
        return page(liked, page_index, page_limit)

    def like_song(self, access_token: Token, song_id: int) -> None:
        """Like a song.

        Args:
            song_id: id of the song
        """
        self._like(song_id, True)

    def unlike_song(self, access_token: Token, song_id: int) -> None:
        """Like a song no more.

        Args:
            song_id: id of the song
        """
        self._like(song_id, False)

    def rate_song(self, access_token: Token, song_id: int, rating: Rating) -> None:
        """Rate a song.

        Args:
            song_id: id of the song
            rating: stars, 5 for the best
        """
        self._give("songs", song_id, "song", rating=rating)

    def list_playlists(
        self, access_token: Token, page_index: Count = 0, page_limit: PageLimit = 5
    ) -> list[dict[str, Any]]:
        """List the playlists.

        Gives: a list of id, title, song_ids
        """
        lists = (dict(row) for row in self._state.rows("playlists"))
        return page(lists, page_index, page_limit)

    def show_playlist(self, access_token: Token, playlist_id: int) -> dict[str, Any]:
        """Show a playlist with its songs in order.

        Gives: id, title, songs: a list of songs as show_song gives them

        Args:
            playlist_id: id of the playlist
        """
        row = self._found("playlists", playlist_id, "playlist")
        songs = [dict(self._found("songs", song_id, "song")) for song_id in row["song_ids"]]
        return {"id": row["id"], "title": row["title"], "songs": songs}

    def create_playlist(self, access_token: Token, title: Text) -> dict[str, int]:
        """Start an empty playlist.

        Gives: playlist_id

        Args:
            title: title of the playlist
        """
        return {"playlist_id": self._add("playlists", title=title, song_ids=[])}

    def rename_playlist(self, access_token: Token, playlist_id: int, title: Text) -> None:
        """Give a playlist another title.

        Args:
            playlist_id: id of the playlist
            title: the new title
        """
        self._give("playlists", playlist_id, "playlist", title=title)

    def delete_playlist(self, access_token: Token, playlist_id: int) -> None:
        """Delete a playlist for good; its songs stay.

        Args:
            playlist_id: id of the playlist
        """
        self._found("playlists", playlist_id, "playlist")
        self._remove("playlists", playlist_id)

    def add_song_to_playlist(self, access_token: Token, playlist_id: int, song_id: int) -> None:
        """Put a song at the end of a playlist.

        Args:
            playlist_id: id of the playlist
            song_id: id of the song
        """
        songs = self._found("playlists", playlist_id, "playlist")["song_ids"]
        self._found("songs", song_id, "song")
        if song_id in songs:
            raise Refusal(409, f"Song {song_id} is already in the playlist.")
        self._state.change("playlists", playlist_id, song_ids=[*songs, song_id])

    def remove_song_from_playlist(
        self, access_token: Token, playlist_id: int, song_id: int
    ) -> None:
        """Take a song out of a playlist.

        Args:
            playlist_id: id of the playlist
            song_id: id of the song
        """
        songs = self._found("playlists", playlist_id, "playlist")["song_ids"]
        if song_id not in songs:
            raise Refusal(404, f"Song {song_id} is not in the playlist.")
        kept = [known for known in songs if known != song_id]
        self._state.change("playlists", playlist_id, song_ids=kept)

    def _like(self, song_id: int, liked: bool) -> None:
        song = self._found("songs", song_id, "song")
        if song["liked"] == liked:
            raise Refusal(409, f"Song {song_id} is {'already' if liked else 'not'} liked.")
        self._state.change("songs", song_id, liked=liked)
