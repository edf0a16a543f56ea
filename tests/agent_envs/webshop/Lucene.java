// The analyzer and the search of the public WebShop, as Anserini has them; test_genuine.py runs it:
//
//   java -cp anserini-fatjar.jar Lucene.java classes > src/agent_envs/webshop/word_breaks.txt
//   java -cp anserini-fatjar.jar Lucene.java words < texts        index terms of each text
//   java -cp anserini-fatjar.jar Lucene.java search DOCUMENTS INDEX < queries
//
// Texts, terms and queries are lines of base64 of UTF-8. DOCUMENTS is a folder of Anserini's
// JsonCollection, INDEX a folder to make; each query is answered by id:score of its 50 best.

import io.anserini.analysis.DefaultEnglishAnalyzer;
import io.anserini.index.IndexCollection;
import io.anserini.search.SimpleSearcher;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;

public class Lucene {
  // Each class of characters that break rules tell apart, and one of them.
  static final String CLASSES =
      "L a L \uac00 P \u2139 N \u0660 0 0 # # K \u30a1 I \u4e00 R \u3042 C \u0e01 c \u0e31 H \u05d0"
          + " m : n , q . s ' d \" E _ X \u0301 f \ufe0e F \ufe0f k \u20e3 Z \u200d Y \u2600"
          + " M \ud83c\udffb G \ud83c\udde6 T \udb40\udc20 t \udb40\udc7f";
  static final int WIDTH = 100;

  static final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);

  public static void main(String[] given) throws Exception {
    System.setOut(System.err); // Anserini prints there
    switch (given[0]) {
      case "classes" -> classes();
      case "words" -> words();
      case "search" -> search(given[1], given[2]);
      default -> throw new IllegalArgumentException(given[0]);
    }
    out.flush();
  }

  static void classes() throws Exception {
    Method classOf =
        Class.forName("org.apache.lucene.analysis.standard.StandardTokenizerImpl")
            .getDeclaredMethod("zzCMap", int.class);
    classOf.setAccessible(true);
    Map<Object, String> names = new HashMap<>();
    String[] pairs = CLASSES.split(" ");
    for (int i = 0; i < pairs.length; i += 2) {
      names.put(classOf.invoke(null, pairs[i + 1].codePointAt(0)), pairs[i]);
    }
    names.put(classOf.invoke(null, (int) ' '), "");
    Map<String, StringBuilder> lines = new TreeMap<>();
    int start = 0;
    for (int code = 1; code <= Character.MAX_CODE_POINT + 1; code++) {
      String name = name(names, classOf.invoke(null, start));
      if (code <= Character.MAX_CODE_POINT && name.equals(name(names, classOf.invoke(null, code)))) {
        continue;
      }
      if (!name.isEmpty()) {
        String range = Integer.toHexString(start);
        range += code - 1 > start ? "-" + Integer.toHexString(code - 1) : "";
        StringBuilder line = lines.computeIfAbsent(name, n -> new StringBuilder(n));
        if (line.length() - line.lastIndexOf("\n") + range.length() > WIDTH) {
          line.append("\n").append(name);
        }
        line.append(" ").append(range);
      }
      start = code;
    }
    lines.values().forEach(line -> out.append(line).append("\n"));
  }

  static String name(Map<Object, String> names, Object number) {
    String name = names.get(number);
    if (name == null) {
      throw new IllegalStateException("a class without a name: " + number);
    }
    return name;
  }

  static void words() throws Exception {
    Analyzer analyzer = DefaultEnglishAnalyzer.newDefaultInstance();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      try (TokenStream tokens = analyzer.tokenStream("contents", text(line))) {
        CharTermAttribute term = tokens.addAttribute(CharTermAttribute.class);
        tokens.reset();
        String before = "";
        while (tokens.incrementToken()) {
          byte[] bytes = term.toString().getBytes(StandardCharsets.UTF_8);
          out.append(before).append(Base64.getEncoder().encodeToString(bytes));
          before = " ";
        }
        out.append("\n");
        tokens.end();
      }
    }
  }

  static void search(String documents, String index) throws Exception {
    String options = "-collection JsonCollection -generator DefaultLuceneDocumentGenerator -threads 1";
    IndexCollection.main((options + " -input " + documents + " -index " + index).split(" "));
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    try (SimpleSearcher searcher = new SimpleSearcher(index)) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        String before = "";
        for (SimpleSearcher.Result found : searcher.search(text(line), 50)) {
          out.append(before).append(found.docid).append(":").append(Float.toString(found.score));
          before = " ";
        }
        out.append("\n");
      }
    }
  }

  static String text(String line) {
    return new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8);
  }
}
